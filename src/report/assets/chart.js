/* chart.js -- one kind of chart for everything: dygraphs for axes, zoom and lines; the rest (events,
   dots, heat, bands) is painted under its lines. Labels never reach dygraphs, which would take them
   for HTML: its series are s0, s1, ..., and the legend is ours. */

/* Its own legend writes style attributes, which the page's policy forbids; the others are unused. */
Dygraph.PLUGINS = [Dygraph.Plugins.Axes, Dygraph.Plugins.Grid];

const Y_LABEL_WIDTH = 58;

/* ---- Small tools ---- */

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function makeFigure(parent, title, how, className) {
  const figure = document.getElementById("figure-template").content.firstElementChild.cloneNode(true);
  figure.querySelector("h3").textContent = title;
  figure.querySelector(".how").textContent = how;
  if (className) figure.className = className;
  parent.append(figure);
  return figure;
}

/* A colour of the theme in force: "run-3" is --run-3 of page.css. Asking costs a computation of
   style, so answers are kept until the theme changes. */
const themeColours = new Map();
function themeColour(name) {
  if (!themeColours.has(name)) {
    const probe = element("span");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    themeColours.set(name, getComputedStyle(probe).color);
    probe.remove();
  }
  return themeColours.get(name);
}

const DASHES = [null, [8, 3], [2, 3], [8, 3, 2, 3]];
const COLOUR_COUNT = 8;
const slotColour = (slot) => `run-${slot % COLOUR_COUNT}`;
const slotDash = (slot) => DASHES[Math.floor(slot / COLOUR_COUNT) % DASHES.length];

/* ---- Axes ---- */

function ticksOf(values, format) {
  return values.map((v) => ({ v, label: format(v) }));
}

const TIME_STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900,
                    1800, 3600, 7200, 10800, 21600, 43200, 86400];

function timeTicker(from, to, pixels) {
  const wanted = (to - from) / Math.max(2, pixels / 90);
  const step = TIME_STEPS.find((one) => one >= wanted) || Math.ceil(wanted / 86400) * 86400;
  const values = [];
  for (let n = Math.ceil(from / step - 1e-9); n * step <= to; n++) values.push(n * step);
  return ticksOf(values, (v) => formatTime(v, step));
}

/* Decades, and 2 and 5 in them where there is room. */
function logTicks(from, to, pixels, room, format) {
  const decades = Math.log10(to / from);
  const digits = pixels / decades > 3 * room ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil((decades * room) / pixels));
  const values = [];
  for (let d = Math.floor(Math.log10(from)); d <= Math.log10(to); d++)
    for (const digit of digits) {
      const value = digit * 10 ** d;
      if (value >= from && value <= to && d % every === 0) values.push(value);
    }
  return ticksOf(values, format);
}

function linearTicks(from, to, pixels, room, format) {
  const wanted = (to - from) / Math.max(2, pixels / room);
  const size = 10 ** Math.floor(Math.log10(wanted));
  const step = size * [1, 2, 5, 10].find((one) => one * size >= wanted * 0.999);
  const values = [];
  for (let n = Math.ceil(from / step); n * step <= to * 1.0001; n++) values.push(n * step);
  return ticksOf(values, format);
}

/* ---- Painting under the lines ---- */

function hatch(context, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const paint = tile.getContext("2d");
  paint.strokeStyle = colour;
  paint.lineWidth = 1.6;
  paint.beginPath();
  for (const shift of [-6, 0, 6]) {
    paint.moveTo(shift, 6);
    paint.lineTo(shift + 6, 0);
  }
  paint.stroke();
  return context.createPattern(tile, "repeat");
}

/* Stalls are solid, slowdowns hatched: the difference is not one of colour alone. */
function paintEvents(context, area, g, run, top, height) {
  const slowFill = hatch(context, themeColour("slowdown"));
  for (const [isStall, start, length] of run.events) {
    const left = g.toDomXCoord(start);
    const right = Math.max(g.toDomXCoord(start + length), left + 2);
    if (right < area.x || left > area.x + area.w) continue;
    context.globalAlpha = isStall ? 0.42 : 0.6;
    context.fillStyle = isStall ? themeColour("stall") : slowFill;
    context.fillRect(left, top, right - left, height);
  }
  context.globalAlpha = 1;
}

function paintWarmup(context, area, g, run, text) {
  const right = Math.min(g.toDomXCoord(run.warmup_s), area.x + area.w);
  if (!(run.warmup_s > 0) || right <= area.x) return;
  context.fillStyle = themeColour("warmup");
  context.fillRect(area.x, area.y, right - area.x, area.h);
  if (right - area.x > 60) {
    context.fillStyle = themeColour("faint");
    context.font = "11px sans-serif";
    context.fillText(text, area.x + 6, area.y + 13);
  }
}

/* Fills between each line and the one below it. */
function paintBands(event) {
  if (event.seriesIndex !== 0) return;
  const context = event.drawingContext;
  const all = event.allSeriesPoints;
  for (let s = 1; s < all.length; s++) {
    context.fillStyle = event.dygraph.getColors()[s];
    context.globalAlpha = 0.16;
    let start = 0;
    const sound = (i) => !isNaN(all[s][i].canvasy) && !isNaN(all[s - 1][i].canvasy);
    for (let i = 0; i <= all[s].length; i++) {
      if (i < all[s].length && sound(i)) continue;
      if (i - start > 1) {
        context.beginPath();
        for (let p = start; p < i; p++) context.lineTo(all[s][p].canvasx, all[s][p].canvasy);
        for (let p = i - 1; p >= start; p--)
          context.lineTo(all[s - 1][p].canvasx, all[s - 1][p].canvasy);
        context.fill();
      }
      start = i + 1;
    }
  }
  context.globalAlpha = 1;
}

/* ---- The time window all time charts share, and what is to be drawn ---- */

const charts = new Set();
const pending = new Set();
let timeWindow = null;
let drawnCount = 0;
let pumpIsPlanned = false;

function isNear(chart) {
  const box = chart.plot.getBoundingClientRect();
  return box.bottom > -100 && box.top < innerHeight + 100;
}

/* One chart a task, those in sight first: the page answers while it draws. For tests and the curious
   the root element tells when all in sight and when all at all were drawn. */
function pump() {
  pumpIsPlanned = false;
  const root = document.documentElement.dataset;
  const inSight = [...pending].find(isNear);
  const chart = inSight || pending.values().next().value;
  if (!inSight && !root.readyMs) root.readyMs = Math.round(performance.now());
  if (chart) {
    pending.delete(chart);
    chart.draw();
  }
  if (pending.size > 0) return plan();
  root.charts = drawnCount;
  root.drawnMs = Math.round(performance.now());
}

function plan() {
  if (pumpIsPlanned) return;
  pumpIsPlanned = true;
  setTimeout(pump, 0);
}

function drawSoon(chart) {
  pending.add(chart);
  delete document.documentElement.dataset.charts;
  plan();
}

function drawAllNow() {
  while (pending.size > 0) pump();
}

function setTimeWindow(window) {
  timeWindow = window;
  document.getElementById("reset-zoom").disabled = window === null;
  for (const chart of charts) if (chart.spec?.isTime) drawSoon(chart);
}

/* ---- The chart ---- */

/*
 * spec:
 *   label      what the picture shows, for those who cannot see it
 *   isTime     x is seconds since the start, zoomed with all others
 *   views      [{name, series, format}]: what can be chosen, such as operations or MiB; a series is
 *              {label, colour, dash, width, times, values, mean}
 *   rows       instead of series' times and values: (isLog) => rows for dygraphs
 *   range      (isLog) => [from, to] of x, unless isTime
 *   yRange     fixed [low, high], unless logarithmic; yFixed even then
 *   xLog       the log switch acts on x, not on y
 *   log        starts logarithmic;  noLog  has no switch
 *   xTicks     (from, to, pixels, isLog) => ticks, unless isTime
 *   xFormat    x in the legend
 *   yTop       what y must reach at least
 *   stacked, bands, noYTicks
 *   headroom   pixels above the lines that `under` paints on
 *   under      (context, area, g, chart): painting below the lines
 */
class Chart {
  /* makeSpec: () => spec, called when the chart is first drawn: it unpacks columns. */
  constructor(figure, makeSpec) {
    this.makeSpec = makeSpec;
    this.figure = figure;
    this.yZoom = null;
    this.plot = element("div", "plot");
    figure.querySelector("figcaption").after(this.plot);
    charts.add(this);
    drawSoon(this);
  }

  build() {
    this.spec = this.makeSpec();
    this.view = this.spec.views[0];
    this.isLog = Boolean(this.spec.log);
    const caption = this.figure.querySelector("figcaption");
    this.tools = element("div", "tools");
    caption.append(this.tools);
    this.legend = element("div", "legend");
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "img");
    this.plot.setAttribute("aria-label", this.spec.label);
    this.note = element("p", "sampling");
    this.plot.before(this.legend);
    this.plot.after(this.note);
    if (this.spec.views.length > 1) this.addViews();
    if (!this.spec.noLog)
      this.addSwitch(["linear", "log"], this.isLog ? 1 : 0, (n) => {
        this.isLog = n === 1;
      });
    if (this.spec.isTime) this.plot.addEventListener("keydown", (event) => this.onKey(event));
  }

  addViews() {
    this.addSwitch(this.spec.views.map((view) => view.name), 0, (n) => {
      this.view = this.spec.views[n];
    });
  }

  addSwitch(names, chosen, choose) {
    const group = element("div", "switch");
    group.setAttribute("role", "group");
    const buttons = names.map((name, n) => {
      const button = element("button", "", name);
      button.type = "button";
      button.setAttribute("aria-pressed", String(n === chosen));
      button.addEventListener("click", () => {
        buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
        choose(n);
        this.yZoom = null;
        this.forget();
        drawSoon(this);
      });
      return button;
    });
    group.append(...buttons);
    this.tools.append(group);
  }

  onKey(event) {
    const [from, to] = this.xRange();
    const width = to - from;
    const moves = {
      "+": [from + width / 4, to - width / 4],
      "=": [from + width / 4, to - width / 4],
      "-": [from - width / 2, to + width / 2],
      ArrowLeft: [from - width / 4, to - width / 4],
      ArrowRight: [from + width / 4, to + width / 4],
    };
    if (event.key === "0" || event.key === "Escape") setTimeWindow(null);
    else if (moves[event.key]) this.zoomTo(...moves[event.key]);
    else return;
    event.preventDefault();
  }

  /* Never past the ends; the whole is no window. */
  zoomTo(from, to) {
    const [first, last] = this.wholeRange();
    const width = Math.min(to - from, last - first);
    const start = Math.min(Math.max(from, first), last - width);
    setTimeWindow(width >= (last - first) * 0.999 ? null : [start, start + width]);
  }

  wholeRange() {
    if (!this.spec.isTime) return this.spec.range(this.isLog);
    if (!this.whole) {
      const ends = this.view.series.map(({ times }) =>
        times.length > 1 ? 2 * times[times.length - 1] - times[times.length - 2] : 1);
      this.whole = [0, Math.max(1e-3, ...ends)];
    }
    return this.whole;
  }

  xRange() {
    return (this.spec.isTime && timeWindow) || this.wholeRange();
  }

  rows() {
    if (this.spec.rows) return this.spec.rows(this.isLog);
    const [from, to] = this.xRange();
    const pixels = Math.max(100, this.plot.clientWidth - Y_LABEL_WIDTH);
    const stretches = Math.round(pixels / 2);
    const rows = sampleRows(this.view.series, from, to, stretches);
    const intervals = Math.max(...this.view.series.map(({ times }) =>
      firstIndex(times, to) - firstIndex(times, from)));
    this.note.textContent = intervals <= 2 * stretches ? "" :
      `${intervals.toLocaleString("en")} intervals in ${stretches} stretches, ` +
      (this.view.series.every(({ mean }) => mean) ? "means drawn" : "minimum and maximum of each drawn");
    return rows.length > 0 ? rows : [[from, ...this.view.series.map(() => null)]];
  }

  yRange(rows) {
    if (this.yZoom) return this.yZoom;
    const yLog = this.isLog && !this.spec.xLog;
    if (this.spec.yFixed || (this.spec.yRange && !yLog)) return this.spec.yFixed || this.spec.yRange;
    let low = Infinity;
    let high = this.spec.yTop || 0;
    for (const row of rows) {
      let sum = 0;
      for (let s = 1; s < row.length; s++) {
        const value = row[s];
        if (!(value > 0)) continue;
        sum += value;
        if (value < low) low = value;
        if (value > high) high = value;
      }
      if (this.spec.stacked && sum > high) high = sum;
    }
    if (high === 0) return yLog ? [0.1, 1] : [0, 1];
    /* Room above the lines for what is painted there. */
    const share = Math.min(0.5, (this.spec.headroom || 0) / (this.plot.clientHeight - 20));
    if (yLog) return [low / 1.25, high * 1.25 * ((1.5 * high) / low) ** (share / (1 - share))];
    return [0, (high * 1.06) / (1 - share)];
  }

  /* On a logarithmic axis nothing lies at the foot rather than nowhere: a stall must be seen. */
  raiseZeros(rows, floor) {
    for (const row of rows)
      for (let s = 1; s < row.length; s++) if (row[s] !== null && row[s] <= 0) row[s] = floor;
    return rows;
  }

  draw() {
    if (this.plot.offsetParent === null) return; /* in a closed run: drawn when that is opened */
    if (!this.spec) this.build();
    let rows = this.rows();
    const yRange = this.yRange(rows);
    const yLog = this.isLog && !this.spec.xLog;
    if (yLog) rows = this.raiseZeros(rows, yRange[0]);
    const changing = { file: rows, dateWindow: this.xRange(), valueRange: yRange };
    if (this.graph) {
      this.graph.updateOptions(changing);
    } else {
      this.makeLegend();
      this.graph = new Dygraph(this.plot, rows, { ...this.options(yLog), ...changing });
      drawnCount++;
    }
  }

  /* Before a draw that changes more than the window. */
  forget() {
    if (!this.graph) return;
    this.graph.destroy();
    this.graph = null;
    drawnCount--;
  }

  options(yLog) {
    const { spec, view } = this;
    const series = {};
    view.series.forEach((one, s) => {
      series[`s${s}`] = { strokePattern: one.dash || null, strokeWidth: one.width ?? 1.3 };
    });
    const yTicks = yLog ? logTicks : linearTicks;
    const options = {
      labels: ["x", ...view.series.map((one, s) => `s${s}`)],
      colors: view.series.map((one) => themeColour(one.colour)),
      series,
      connectSeparatedPoints: true,
      stackedGraph: Boolean(spec.stacked),
      fillAlpha: spec.stacked ? 0.75 : 0.15,
      stackedGraphNaNFill: "none",
      drawPoints: Boolean(spec.points),
      pointSize: 3,
      rightGap: 26, /* half of the last label */
      highlightCircleSize: spec.rows && !spec.points ? 0 : 3,
      axisLineColor: themeColour("rule"),
      gridLineColor: themeColour("grid"),
      gridLineWidth: 0.6,
      logscale: yLog,
      axes: {
        x: {
          axisLabelWidth: 52,
          ticker: (from, to, pixels) =>
            spec.isTime ? timeTicker(from, to, pixels) : spec.xTicks(from, to, pixels, this.isLog),
          drawGrid: !spec.noXGrid,
        },
        y: {
          axisLabelWidth: Y_LABEL_WIDTH,
          ticker: (from, to, pixels) =>
            spec.noYTicks ? [] : yTicks(from, to, pixels, 34, view.format),
        },
      },
      underlayCallback: (context, area, g) => spec.under && spec.under(context, area, g, this),
      highlightCallback: (event, x, points) => this.showValues(x, points),
      unhighlightCallback: () => this.showValues(null, []),
      zoomCallback: (from, to, yRanges) => this.onZoom(from, to, yRanges[0]),
      interactionModel: {
        ...Dygraph.defaultInteractionModel,
        dblclick: () => {
          this.yZoom = null;
          if (spec.isTime) setTimeWindow(null);
          else drawSoon(this);
        },
      },
    };
    if (spec.bands)
      options.plotter = [paintBands, Dygraph.Plotters.linePlotter];
    return options;
  }

  /* dygraphs zooms one axis at a time. */
  onZoom(from, to, yRange) {
    const [first, last] = this.xRange();
    if (from !== first || to !== last) {
      if (this.spec.isTime) this.zoomTo(from, to);
      return;
    }
    this.yZoom = yRange;
  }

  makeLegend() {
    this.legend.textContent = "";
    this.values = this.view.series.map((one) => {
      const item = element("span", "legend-item");
      const swatch = element("span", "swatch");
      swatch.style.borderTopColor = `var(--${one.colour})`;
      swatch.style.borderTopStyle = one.dash ? "dashed" : "solid";
      const value = element("span", "legend-value");
      item.append(swatch, one.label, " ", value);
      this.legend.append(item);
      return value;
    });
    this.place = element("span", "legend-value");
    this.legend.append(this.place);
  }

  showValues(x, points) {
    this.values.forEach((value) => {
      value.textContent = "";
    });
    for (const point of points) {
      const shown = this.values[Number(point.name.slice(1))];
      if (shown && !isNaN(point.yval)) shown.textContent = this.view.format(point.yval);
    }
    this.place.textContent = x === null ? "" :
      this.spec.isTime ? `at ${formatTime(x, 1)}` : this.spec.xFormat ? this.spec.xFormat(x) : "";
  }
}
