/* runs.js -- each run's own pictures, over one time axis. */

const LATENCIES = [["p50_us", "p50"], ["p95_us", "p95"], ["p99_us", "p99"], ["p999_us", "p99.9"],
                   ["max_us", "max"]];

function underRun(run) {
  return (context, area, g) => {
    paintWarmup(context, area, g, run, "warm-up");
    paintEvents(context, area, g, run, area.y, area.h);
  };
}

/* Operations or MiB a second of one kind. */
function kindRates(run, kind, column, factor) {
  const lengths = run.column("intervals", "length_s");
  return run.column("kinds", kind, column).map((value, i) => (value * factor) / lengths[i]);
}

function throughputSpec(run) {
  const view = (name, column, total, factor) => ({
    name,
    format: formatCount,
    series: run.kinds.length === 1
      ? [{ label: run.kinds[0], colour: "run-0", times: run.times, values: run.column(total) }]
      : [{ label: "all but syncs", colour: "ink", times: run.times, values: run.column(total) },
         ...run.kinds.map((kind, k) => ({ label: kind, colour: slotColour(k), times: run.times,
                                          values: kindRates(run, k, column, factor) }))],
  });
  return {
    label: `Throughput over time of ${run.label}`,
    isTime: true,
    views: [view("ops/s", "operations", "rate", 1), view("MiB/s", "bytes", "mib", 1 / 1048576)],
    under: underRun(run),
  };
}

function latencySpec(run, kind) {
  return {
    label: `Latency percentiles over time of ${run.label}, ${run.kinds[kind]}`,
    isTime: true,
    log: true,
    bands: true,
    views: [{ name: "", format: formatMicroseconds, series: LATENCIES.map(([column, label], n) => ({
      label, colour: `band-${n}`, times: run.times, values: run.column("kinds", kind, column) })) }],
    under: underRun(run),
  };
}

/* Sums of the cells' shares for each pixel of the plot: what is drawn is what can be seen. */
function heatColumns(run, heat, area, g) {
  const times = run.times;
  const columns = new Map();
  heat.cells.forEach((cell, c) => {
    const first = c * heat.perCell;
    const after = Math.min(first + heat.perCell, times.length);
    const left = Math.round(g.toDomXCoord(times[first]));
    const right = Math.round(g.toDomXCoord(after < times.length ? times[after] : run.end_s));
    if (right <= area.x || left >= area.x + area.w) return;
    const column = columns.get(left) || { width: 1, cells: 0, shares: new Map() };
    columns.set(left, column);
    column.width = Math.max(column.width, right - left);
    column.cells++;
    for (const [bucket, share] of cell)
      column.shares.set(bucket, (column.shares.get(bucket) || 0) + share);
  });
  return columns;
}

function paintHeat(run, heat) {
  return (context, area, g) => {
    context.save();
    context.beginPath();
    context.rect(area.x, area.y, area.w, area.h);
    context.clip();
    context.fillStyle = themeColour("heat");
    for (const [left, { width, cells, shares }] of heatColumns(run, heat, area, g))
      for (const [bucket, share] of shares) {
        const top = g.toDomYCoord(2 ** ((bucket + 1) / 4) / 1000);
        const foot = g.toDomYCoord(2 ** (bucket / 4) / 1000);
        context.globalAlpha = 0.08 + 0.92 * Math.sqrt(Math.min(1, share / cells));
        context.fillRect(left, top, width, foot - top);
      }
    context.restore();
  };
}

function heatSpec(run, kind) {
  const heat = run.heat(kind);
  let low = Infinity;
  let high = 0;
  for (const cell of heat.cells)
    for (const [bucket] of cell) {
      low = Math.min(low, bucket);
      high = Math.max(high, bucket);
    }
  if (high < low) low = high = 0; /* not one operation */
  return {
    label: `Distribution of latencies over time of ${run.label}, ${run.kinds[kind]}`,
    isTime: true,
    log: true,
    noLog: true,
    yFixed: [2 ** (low / 4) / 1000, 2 ** ((high + 1) / 4) / 1000],
    views: [{ name: "", format: formatMicroseconds, series: [
      { label: "p50", colour: "ink", times: run.times, values: run.column("kinds", kind, "p50_us") },
      { label: "p99", colour: "ink", dash: [4, 3], times: run.times,
        values: run.column("kinds", kind, "p99_us") }] }],
    under: paintHeat(run, heat),
  };
}

/* name, [[column, label], ...], format, factor */
const DEVICE_CHARTS = [
  ["requests/s", [["r_s", "reads"], ["w_s", "writes"], ["f_s", "flushes"]], formatCount, 1],
  ["MiB/s", [["rkb_s", "read"], ["wkb_s", "written"]], formatCount, 1 / 1024],
  ["await", [["r_await_ms", "reads"], ["w_await_ms", "writes"], ["f_await_ms", "flushes"]],
   formatMilliseconds, 1],
  ["queue (aqu-sz)", [["aqu_sz", "requests under way"]], formatCount, 1],
  ["util", [["util_percent", "busy"]], formatPercent, 1],
];

function deviceSpec(run, [name, columns, format, factor]) {
  const present = columns.filter(([column]) => run.has("device", column));
  return {
    label: `Device ${run.device_name}: ${name} over time of ${run.label}`,
    isTime: true,
    yRange: name === "util" ? [0, 105] : null,
    views: [{ name: "", format, series: present.map(([column, label], n) => ({
      label, colour: slotColour(n), times: run.times,
      values: run.column("device", column).map((value) => value * factor) })) }],
    under: underRun(run),
  };
}

/* From the top of the stack to its foot, as dygraphs piles them. */
const CPU_SHARES = [["steal_percent", "steal", "run-5"], ["iowait_percent", "iowait", "iowait"],
                    ["system_percent", "system", "run-1"], ["user_percent", "user", "run-0"]];

function processorSpec(run) {
  const present = CPU_SHARES.filter(([column]) => run.has("cpu", column));
  return {
    label: `Processor time over time of ${run.label}`,
    isTime: true,
    noLog: true,
    stacked: true,
    yFixed: [0, 100],
    views: [{ name: "", format: formatPercent, series: present.map(([column, label, colour]) => ({
      label, colour, times: run.times, values: run.column("cpu", column), mean: true })) }],
  };
}

/* Makes the charts of a run when it is first opened; what they missed while it was closed is drawn. */
function openRun(details) {
  for (const chart of charts) if (details.contains(chart.figure)) drawSoon(chart);
  const run = runs[details.dataset.run];
  const parent = details.querySelector(".figures");
  if (parent.children.length > 0 || run.intervals === 0) return;
  const add = (title, how, className, makeSpec) =>
    new Chart(makeFigure(parent, title, how, className), makeSpec);
  add("Throughput", run.events.length === 0 ? "" :
    "Solid red: stalls, nothing completed. Hatched amber: slowdowns.", "wide", () => throughputSpec(run));
  run.kinds.forEach((kind, k) => {
    add(`Latency of ${kind}`, "", "", () => latencySpec(run, k));
    if (run.has("kinds", k, "heat"))
      add(`Distribution of ${kind} latencies`,
        "The stronger the colour, the larger the share of the operations that took so long. " +
        "Lines: median, and 99th percentile dashed.", "", () => heatSpec(run, k));
  });
  for (const chart of DEVICE_CHARTS)
    if (chart[1].some(([column]) => run.has("device", column)))
      add(`${run.device_name || "Device"}: ${chart[0]}`, "", "", () => deviceSpec(run, chart));
  if (CPU_SHARES.some(([column]) => run.has("cpu", column)))
    add("Processors", "Shares of all processors' time; the rest was idle.", "", () => processorSpec(run));
}

function makeRuns() {
  const all = [...document.querySelectorAll("details.run")];
  for (const details of all) {
    details.addEventListener("toggle", () => details.open && openRun(details));
    if (details.open) openRun(details);
  }
  document.getElementById("run-controls").hidden = false;
  document.getElementById("open-all").addEventListener("click", () => all.forEach((one) => {
    one.open = true;
  }));
  document.getElementById("close-all").addEventListener("click", () => all.forEach((one) => {
    one.open = false;
  }));
  document.getElementById("reset-zoom").addEventListener("click", () => setTimeWindow(null));
}
