/* page.js -- which charts there are, and what the page's controls do. */

const comparison = document.getElementById("comparison");

/* Shown rows have slots, and those their colours: of up to eight runs no two look alike. */
const slots = new Map();

function showRow(row) {
  let slot = 0;
  while ([...slots.values()].includes(slot)) slot++;
  slots.set(row, slot);
}

const rowColour = (row) => slotColour(slots.get(row));
const rowDash = (row) => slotDash(slots.get(row));

/* At first, runs that stand for themselves before those of a group, which has pictures of its own. */
function showFirstRows() {
  const SHOWN_MAX = 6;
  const numbers = rows.map((row, number) => number);
  const alone = numbers.filter((number) => !rows[number].group);
  const ordered = [...alone, ...numbers.filter((number) => rows[number].group)];
  ordered.slice(0, SHOWN_MAX).sort((a, b) => a - b).forEach(showRow);
}

const shownRuns = () => runs.filter((run) => slots.has(run.row) && run.intervals > 0)
  .sort((a, b) => a.row - b.row);

/* ---- Comparison ------------------------------------------------------------------------------- */

function rateSeries(run, column) {
  return { label: run.label, colour: rowColour(run.row), dash: rowDash(run.row),
           times: run.times, values: run.column(column) };
}

function timelineSpec(shown) {
  const troubled = shown.filter((run) => run.events.length > 0);
  const strip = Math.max(5, Math.min(10, 60 / troubled.length));
  return {
    label: `Throughput over time of ${shown.map((run) => run.label).join("; ")}`,
    isTime: true,
    views: [
      { name: "ops/s", format: formatCount, series: shown.map((run) => rateSeries(run, "rate")) },
      { name: "MiB/s", format: formatCount, series: shown.map((run) => rateSeries(run, "mib")) },
    ],
    headroom: troubled.length * strip,
    under(context, area, g) {
      shown.forEach((run) => {
        context.globalAlpha = 1 / shown.length;
        paintWarmup(context, area, g, run);
      });
      context.globalAlpha = 1;
      troubled.forEach((run, n) => {
        const top = area.y + n * strip;
        paintEvents(context, area, g, run, top, strip - 2);
        context.fillStyle = themeColour(rowColour(run.row));
        context.fillRect(area.x - 7, top, 5, strip - 2);
      });
    },
  };
}

/* A place within half a column that looks random and stays the same: dots must not dance. */
function jitterPlace(index) {
  const hash = Math.imul(index + 1, 0x9e3779b1);
  return ((Math.imul(hash ^ (hash >>> 15), 0x85ebca6b) >>> 0) / 2 ** 32) * 0.6 - 0.3;
}

function paintDots(context, g, place, run, isLog) {
  const values = run.column("rate");
  const count = values.length - run.judged_first;
  context.fillStyle = themeColour(rowColour(run.row));
  const size = count < 200 ? 4 : 2.2;
  context.globalAlpha = Math.min(0.7, Math.max(0.12, 25 / Math.sqrt(count)));
  for (let i = run.judged_first; i < values.length; i++) {
    if (isLog && !(values[i] > 0)) continue;
    const x = g.toDomXCoord(place + jitterPlace(i));
    context.fillRect(x - size / 2, g.toDomYCoord(values[i]) - size / 2, size, size);
  }
  context.globalAlpha = 1;
}

function jitterSpec(shown) {
  const places = [...new Set(shown.map((run) => run.row))];
  const highest = (run) => run.column("rate").reduce((high, value) => Math.max(high, value), 0);
  const lowest = (run) => run.column("rate").reduce(
    (low, value) => (value > 0 && value < low ? value : low), Infinity);
  return {
    label: `Spread of the intervals' throughput: ${shown.map((run) =>
      `${run.label}, median ${formatCount(rows[run.row].operations_per_s.median)} operations/s`).join("; ")}`,
    views: [{ name: "ops/s", format: formatCount, series: places.map((row) => ({
      label: `${row + 1} ${rows[row].label}`, colour: rowColour(row), dash: null, width: 0 })) }],
    range: () => [0.4, places.length + 0.6],
    rows: () => {
      const low = Math.min(...shown.map(lowest));
      const high = Math.max(...shown.map(highest));
      const pad = places.slice(1).map(() => null);
      return [[0.4, low < high ? low : high / 2, ...pad], [places.length + 0.6, high, ...pad]];
    },
    noXGrid: true,
    xTicks: () => places.map((row, n) => ({ v: n + 1, label: String(row + 1) })),
    under(context, area, g, chart) {
      for (const run of shown) paintDots(context, g, places.indexOf(run.row) + 1, run, chart.isLog);
      context.fillStyle = themeColour("ink");
      places.forEach((row, n) => {
        const median = rows[row].operations_per_s.median;
        if (!(median > 0)) return;
        const left = g.toDomXCoord(n + 0.62);
        context.fillRect(left, g.toDomYCoord(median) - 1.5, g.toDomXCoord(n + 1.38) - left, 3);
      });
    },
  };
}

/* Curves that have x values of their own, as rows that all share. */
function mergeCurves(curves) {
  const merged = [];
  curves.forEach((points, n) => {
    for (const [x, y] of points) {
      const row = new Array(curves.length + 1).fill(null);
      row[0] = x;
      row[n + 1] = y;
      merged.push(row);
    }
  });
  return merged.sort((a, b) => a[0] - b[0]);
}

function densityCurve(run, isLog) {
  const { low, high, values } = run.packed[isLog ? "density_log" : "density"];
  return values.map((value, i) => [low + ((high - low) * i) / (values.length - 1), value]);
}

function densitySpec(shown) {
  const range = (isLog) => {
    const ends = shown.map((run) => run.packed[isLog ? "density_log" : "density"])
      .filter(({ values }) => values.length > 0);
    const low = Math.min(...ends.map((one) => one.low));
    const high = Math.max(...ends.map((one) => one.high));
    return ends.length > 0 ? [isLog ? low : Math.max(0, low), high] : [0, 1];
  };
  return {
    label: `Density of the throughput of ${shown.map((run) => run.label).join("; ")}`,
    views: [{ name: "", format: () => "", series: shown.map((run) => rateSeries(run, "rate")) }],
    range,
    rows: (isLog) => mergeCurves(shown.map((run) => densityCurve(run, isLog))),
    xLog: true,
    noYTicks: true,
    xFormat: () => "",
    xTicks: (from, to, pixels, isLog) => isLog
      ? logTicks(10 ** from, 10 ** to, pixels, 60, formatCount)
          .map(({ v, label }) => ({ v: Math.log10(v), label }))
      : linearTicks(from, to, pixels, 80, formatCount),
  };
}

const NINES = [[0, "0"], [0.30103, "50 %"], [1, "90"], [2, "99"], [3, "99.9"], [4, "99.99"],
               [5, "99.999"], [6, "99.9999"], [7, "99.99999"], [8, "99.999999"]];

function percentilesSpec(shown) {
  const curves = shown.map((one) => ({ ...one, points: one.run.percentiles(one.k) }));
  const last = Math.max(...curves.flatMap(({ points }) => points.map(({ nines }) => nines)), 1);
  return {
    label: `Latency by percentile of ${curves.map(({ run, kind }) => `${run.label}, ${kind}`).join("; ")}`,
    views: [{ name: "", format: formatMicroseconds, series: curves.map(({ run, kind, k }) => ({
      label: run.kinds.length > 1 ? `${run.label}: ${kind}` : run.label,
      colour: rowColour(run.row), dash: DASHES[k % DASHES.length] })) }],
    log: true,
    range: () => [0, last * 1.02],
    rows: () => mergeCurves(curves.map(({ points }) => points.map(({ nines, us }) => [nines, us]))),
    xTicks: (from, to) => NINES.filter(([v]) => v <= to).map(([v, label]) => ({ v, label })),
    xFormat: (nines) => `at ${threeDigits(100 - 10 ** (2 - nines))} %`.replace("100 %", "> 99.9 %"),
  };
}

/* Make a figure empty again and put a chart in it, if there is something to see. */
function replaceChart(figure, makeSpec) {
  for (const chart of charts)
    if (chart.figure === figure) {
      chart.forget();
      charts.delete(chart);
      pending.delete(chart);
    }
  figure.querySelectorAll(".tools, .legend, .plot, .sampling").forEach((part) => part.remove());
  figure.hidden = !makeSpec;
  if (makeSpec) new Chart(figure, makeSpec);
}

function drawComparison() {
  const shown = shownRuns();
  const curves = shown.flatMap((run) => run.kinds.map((kind, k) => ({ run, kind, k })))
    .filter(({ run, k }) => run.hasHistogram(k));
  const specs = {
    timeline: shown.length > 0 && (() => timelineSpec(shown)),
    jitter: shown.length > 0 && (() => jitterSpec(shown)),
    density: shown.length > 0 && (() => densitySpec(shown)),
    percentiles: curves.length > 0 && (() => percentilesSpec(curves)),
  };
  for (const figure of comparison.querySelectorAll("figure[data-chart]"))
    replaceChart(figure, specs[figure.dataset.chart]);
}

function paintChip(chip, number) {
  const isShown = slots.has(number);
  const swatch = chip.querySelector(".swatch");
  chip.setAttribute("aria-pressed", String(isShown));
  swatch.style.borderTopColor = isShown ? `var(--${rowColour(number)})` : "";
  swatch.style.borderTopStyle = isShown && rowDash(number) ? "dashed" : "";
}

function makeChips() {
  const chips = document.getElementById("chips");
  rows.forEach((row, number) => {
    const chip = element("button", "chip");
    chip.type = "button";
    chip.append(element("span", "swatch"), element("span", "key", number + 1), " ", row.label);
    chip.title = row.label;
    paintChip(chip, number);
    chip.addEventListener("click", () => {
      if (!slots.delete(number)) showRow(number);
      paintChip(chip, number);
      drawComparison();
    });
    chips.append(chip);
  });
}

/* ---- Groups: runs that differ in one number ------------------------------------------------------ */

/* name -> { axis, curves: one a file, of rows in ascending order } */
function collectGroups() {
  const groups = new Map();
  rows.forEach((row, number) => {
    if (!row.group) return;
    const run = runs.find((one) => one.row === number);
    const group = groups.get(row.group.name) || { axis: row.group.axis, curves: new Map() };
    groups.set(row.group.name, group);
    const curve = group.curves.get(run.file) || [];
    group.curves.set(run.file, curve);
    curve.push(row);
  });
  for (const { curves } of groups.values())
    for (const curve of curves.values()) curve.sort((a, b) => a.group.x - b.group.x);
  return groups;
}

function makeFigure(parent, title, how, className) {
  const figure = document.getElementById("figure-template").content.firstElementChild.cloneNode(true);
  figure.querySelector("h3").textContent = title;
  figure.querySelector(".how").textContent = how;
  if (className) figure.className = className;
  parent.append(figure);
  return figure;
}

function groupSpec(name, group, curves, values, format) {
  const marks = [...new Set(curves.flatMap(({ rows: curve }) => curve.map((row) => row.group.x)))];
  const place = (x) => Math.log2(x > 0 ? x : 0.5);
  const places = marks.map(place);
  return {
    label: `${name}: ${curves.map(({ label, rows: curve, value }) => `${label}: ${curve.map((row) =>
      `${format(value(row))} at ${row.group.x} ${group.axis}`).join(", ")}`).join("; ")}`,
    views: [{ name: "", format, series: curves }],
    points: true,
    range: () => [Math.min(...places) - 0.3, Math.max(...places) + 0.1],
    rows: () => mergeCurves(curves.map(({ rows: curve, value }) =>
      curve.map((row) => [place(row.group.x), value(row)]))),
    xTicks: () => marks.map((x) => ({ v: place(x), label: String(Number(x)) })),
    xFormat: (x) => `at ${threeDigits(2 ** x)} ${group.axis}`,
    ...values,
  };
}

/* The interval of each median, as a whisker. */
function paintWhiskers(curves) {
  return (context, area, g) => {
    for (const { rows: curve, colour } of curves) {
      context.strokeStyle = themeColour(colour);
      context.lineWidth = 1;
      context.beginPath();
      for (const row of curve) {
        const x = g.toDomXCoord(Math.log2(row.group.x > 0 ? row.group.x : 0.5));
        context.moveTo(x, g.toDomYCoord(row.operations_per_s.low));
        context.lineTo(x, g.toDomYCoord(row.operations_per_s.high));
      }
      context.stroke();
    }
  };
}

function drawGroups() {
  const parent = document.getElementById("groups");
  for (const [name, group] of collectGroups()) {
    const files = [...group.curves];
    const throughput = files.map(([file, curve]) => ({
      label: files.length > 1 ? report.files[file] : "median", colour: slotColour(file), rows: curve,
      dash: null, value: (row) => row.operations_per_s.median }));
    const latencies = files.flatMap(([file, curve]) => ["p50", "p99"].map((percentile, n) => ({
      label: files.length > 1 ? `${report.files[file]} ${percentile}` : percentile,
      colour: slotColour(file), dash: DASHES[n], rows: curve,
      value: (row) => (row.kinds[0] && row.kinds[0].latency_us
        ? row.kinds[0].latency_us[percentile] : NaN) })));
    new Chart(
      makeFigure(parent, `${name}: throughput`,
        `A dot a run, by its number of ${group.axis}: median operations/s, whiskers its 95 % interval.`),
      () => groupSpec(name, group, throughput, {
        under: paintWhiskers(throughput),
        yTop: Math.max(...throughput.flatMap(({ rows: curve }) =>
          curve.map((row) => row.operations_per_s.high))),
      }, formatCount));
    new Chart(
      makeFigure(parent, `${name}: response time`,
        "Median and 99th percentile of the operations' latencies over the whole run. Where throughput " +
        "stops rising and response time starts to, the device has no more to give."),
      () => groupSpec(name, group, latencies, {}, formatMicroseconds));
  }
}

/* ---- Run by run ------------------------------------------------------------------------------- */

const LATENCIES = [["p50_us", "p50"], ["p95_us", "p95"], ["p99_us", "p99"], ["p999_us", "p99.9"],
                   ["max_us", "max"]];

function underRun(run) {
  return (context, area, g) => {
    paintWarmup(context, area, g, run);
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
const CPU_SHARES = [["steal_percent", "steal", "run-7"], ["iowait_percent", "iowait", "iowait"],
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

function drawRun(details) {
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
    details.addEventListener("toggle", () => details.open && drawRun(details));
    if (details.open) drawRun(details);
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

/* ---- The summary table ------------------------------------------------------------------------ */

const table = document.getElementById("summary-table");

function sortBy(column, header) {
  const descending = header.getAttribute("aria-sort") === "descending";
  const isText = column === 1;
  const first = header.getAttribute("aria-sort") ? (descending ? 1 : -1) : isText || column === 0 ? 1 : -1;
  const key = (body) => {
    const cell = body.rows[0].cells[column];
    if (!cell) return -Infinity;
    return isText ? cell.textContent : Number(cell.dataset.sort ?? cell.textContent);
  };
  const compare = (a, b) => (isText ? a.localeCompare(b) : a - b) || 0;
  [...table.tBodies]
    .map((body) => [key(body), body])
    .sort(([a], [b]) => first * compare(a, b))
    .forEach(([, body]) => table.append(body));
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", first > 0 ? "ascending" : "descending");
}

function makeSortable() {
  [...table.tHead.rows[0].cells].forEach((header, column) => {
    const button = element("button", "sort");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => sortBy(column, header));
  });
}

/* ---- The baseline -------------------------------------------------------------------------------- */

/* The row that a row is compared with: "row:N", "file:N" (its namesake there) or "none". */
function baselineOf(number, choice) {
  const [kind, value] = choice.split(":");
  if (kind === "row") return Number(value);
  if (kind === "none") return -1;
  return rows.findIndex((row) => row.name === rows[number].name && fileOf(row) === Number(value));
}

const fileOf = (row) => runs.find((run) => run.row === rows.indexOf(row)).file;

function fillRatio(cell, ratio, isBaseline) {
  cell.dataset.sort = ratio ? ratio.ratio : 0;
  cell.textContent = ratio ? "" : isBaseline ? "1" : "\u2013";
  if (!ratio) return;
  cell.append(element("strong", "", threeDigits(ratio.ratio)),
    element("span", "under", `${threeDigits(ratio.low)} \u2013 ${threeDigits(ratio.high)}`));
  if (ratio.differences > 1) {
    const badge = element("span", "badge unlike", `\u2260 ${ratio.differences}`);
    badge.title = `differs in: ${ratio.differing}`;
    cell.append(" ", badge);
  }
}

function applyBaseline(choice) {
  let unlike = 0;
  let compared = 0;
  for (const body of table.tBodies) {
    const number = Number(body.dataset.row);
    const base = baselineOf(number, choice);
    const ratio = base >= 0 ? report.pairs[base][number] : null;
    fillRatio(body.querySelector(".ratio"), ratio, base === number);
    compared += ratio !== null;
    unlike += ratio !== null && ratio.differences > 1;
  }
  const warning = document.getElementById("unlike");
  warning.hidden = unlike === 0;
  warning.querySelector("span").textContent = `${unlike} of ${compared}`;
}

/* Files whose runs have namesakes in other files. */
function comparableFiles() {
  return report.files.map((label, file) => file).filter((file) =>
    rows.some((row) => fileOf(row) === file &&
      rows.some((other) => fileOf(other) !== file && other.name === row.name)));
}

function makeBaseline() {
  if (rows.length < 2 || report.pairs.length === 0) return;
  const select = document.getElementById("baseline");
  const add = (value, label) => {
    const option = element("option", "", label);
    option.value = value;
    select.append(option);
  };
  add("none", "none");
  for (const file of comparableFiles())
    add(`file:${file}`, `the run of the same name in ${report.files[file]}`);
  rows.forEach((row, number) => add(`row:${number}`, `${number + 1} ${row.label}`));
  select.value = report.chosen;
  select.addEventListener("change", () => applyBaseline(select.value));
  document.getElementById("baseline-controls").hidden = false;
}

/* ---- Theme and print ------------------------------------------------------------------------------ */

const THEMES = ["system", "light", "dark"];

function setTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = `Theme: ${theme}`;
  redrawAll();
}

function redrawAll() {
  themeColours.clear();
  for (const chart of charts) {
    chart.forget();
    drawSoon(chart);
  }
}

function makeTheme() {
  const button = document.getElementById("theme");
  const asked = THEMES.find((theme) => location.hash === `#${theme}`);
  let theme = asked || "system";
  button.hidden = false;
  if (asked) setTheme(asked);
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    setTheme(theme);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  let beforePrint = null;
  addEventListener("beforeprint", () => {
    beforePrint = theme;
    setTheme("light");
    drawAllNow();
  });
  addEventListener("afterprint", () => setTheme(beforePrint));
}

makeTheme();
makeSortable();
makeBaseline();
showFirstRows();
makeChips();
drawComparison();
drawGroups();
makeRuns();
