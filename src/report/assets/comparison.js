/* comparison.js -- the pictures that show runs beside one another. */

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

/* At first, runs that stand for themselves before those of a group, which has pictures of its own,
   and long ones before short ones, which have little to show over time. */
function showFirstRows() {
  const SHOWN_MAX = 6;
  const length = (row) => Math.max(...runs.filter((run) => run.row === row).map((run) => run.end_s));
  const order = rows.map((row, number) => [row.group ? 1 : 0, -length(number), number]);
  order.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
  order.slice(0, SHOWN_MAX).map(([, , number]) => number).sort((a, b) => a - b).forEach(showRow);
}

const shownRuns = () => runs.filter((run) => slots.has(run.row) && run.intervals > 0)
  .sort((a, b) => a.row - b.row);

/* ---- Comparison ---- */

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
        paintWarmup(context, area, g, run, "");
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
  const medians = shown.map((run) => rows[run.row].operations_per_s.median).filter((rate) => rate > 0);
  return {
    log: Math.max(...medians) > 10 * Math.min(...medians),
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

/* ---- Groups: runs that differ in one number ---- */

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
        `A dot a run, by ${group.axis}: median operations/s, whiskers its 95 % interval.`),
      () => groupSpec(name, group, throughput, {
        under: paintWhiskers(throughput),
        yTop: Math.max(...throughput.flatMap(({ rows: curve }) =>
          curve.map((row) => row.operations_per_s.high))),
      }, formatCount));
    new Chart(
      makeFigure(parent, `${name}: response time`,
        "Median and 99th percentile of the operations' latencies over the whole run. Where throughput " +
        "stops rising and response time starts to, the device has no more to give."),
      () => groupSpec(name, group, latencies, { log: true }, formatMicroseconds));
  }
}
