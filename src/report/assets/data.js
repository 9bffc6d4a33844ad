"use strict";
/* data.js -- what the page carries: the table, and each run's columns, unpacked when first needed.
   How columns are packed is said in pack.c. */

const report = JSON.parse(document.getElementById("data").textContent);
const rows = report.runs;

/* Numbers of seven-bit groups out of base64. Plain arithmetic: they may pass 2^32. */
class PackedNumbers {
  constructor(text) {
    this.bytes = atob(text);
    this.place = 0;
  }

  next() {
    let number = 0;
    let factor = 1;
    for (;;) {
      const byte = this.bytes.charCodeAt(this.place++);
      number += (byte & 127) * factor;
      if (byte < 128) return number;
      factor *= 128;
    }
  }

  /* How many there are: as many as bytes that end one. */
  get length() {
    let count = 0;
    for (let i = 0; i < this.bytes.length; i++) count += this.bytes.charCodeAt(i) < 128;
    return count;
  }
}

function unpackColumn([scale, text]) {
  const numbers = new PackedNumbers(text);
  const values = new Float64Array(numbers.length);
  let before = 0;
  for (let n = 0; n < values.length; n++) {
    const number = numbers.next() - 1;
    if (number >= 0) before += number % 2 ? -(number + 1) / 2 : number / 2;
    values[n] = number >= 0 ? before / scale : NaN;
  }
  return values;
}

/* A run: its properties as C wrote them (report.members), and its columns on demand. */
class Run {
  constructor(properties, number) {
    Object.assign(this, properties);
    this.number = number;
    this.cache = new Map();
  }

  get packed() {
    if (!this.parsed)
      this.parsed = JSON.parse(document.getElementById(`columns-${this.number}`).textContent);
    return this.parsed;
  }

  /* column("rate"), column("device", "r_s"), column("kinds", 0, "p50_us"); undefined if absent. */
  column(...path) {
    const key = path.join("/");
    if (!this.cache.has(key)) {
      const packed = path.reduce((part, name) => part && part[name], this.packed);
      this.cache.set(key, packed && unpackColumn(packed));
    }
    return this.cache.get(key);
  }

  has(...path) {
    return path.reduce((part, name) => part && part[name], this.packed) !== undefined;
  }

  hasHistogram(kind) {
    return this.has("kinds", kind, "histogram");
  }

  get times() {
    return this.column("intervals", "start_s");
  }

  get warmup_s() {
    return this.judged_first > 0 ? this.times[this.judged_first] : 0;
  }

  get end_s() {
    return this.intervals ? this.times[this.intervals - 1] + this.interval_s : 0;
  }

  /* The whole run's latencies of a kind: [{nines, us}], a point where each bucket ends. */
  percentiles(kind) {
    const packed = this.packed.kinds[kind].histogram;
    const low = unpackColumn(packed[0]);
    const counts = unpackColumn(packed[1]);
    const total = counts.reduce((sum, count) => sum + count, 0);
    const points = [];
    let below = 0;
    for (let i = 0; i < low.length; i++) {
      below += counts[i];
      if (below < total) points.push({ nines: -Math.log10(1 - below / total), us: low[i] / 1000 });
    }
    return points;
  }

  /* Cells of time, each [[bucket, share], ...] where the shares of a cell add up to 1. */
  heat(kind) {
    const packed = this.packed.kinds[kind].heat;
    const key = `heat/${kind}`;
    if (!this.cache.has(key)) {
      const numbers = new PackedNumbers(packed.pairs);
      const cells = [];
      for (let c = 0; c < packed.cells; c++) {
        const cell = [];
        let bucket = 0;
        let total = 0;
        for (let left = numbers.next(); left > 0; left--) {
          bucket += numbers.next();
          const count = numbers.next();
          total += count;
          cell.push([bucket, count]);
        }
        for (const pair of cell) pair[1] /= total || 1;
        cells.push(cell);
      }
      this.cache.set(key, { cells, perCell: packed.intervals_per_cell });
    }
    return this.cache.get(key);
  }
}

const runs = report.members.map((properties, number) => new Run(properties, number));

/* ---- Numbers as people read them ---- */

function threeDigits(value) {
  if (value === 0) return "0";
  return String(Number(value.toPrecision(3)));
}

function formatCount(value) {
  const steps = [[1e9, " G"], [1e6, " M"], [1e3, " k"]];
  for (const [size, unit] of steps)
    if (Math.abs(value) >= size) return threeDigits(value / size) + unit;
  return threeDigits(value);
}

function formatMicroseconds(us) {
  if (us === 0) return "0";
  const steps = [[3.6e9, " h"], [6e7, " min"], [1e6, " s"], [1e3, " ms"], [1, " \u00b5s"]];
  for (const [size, unit] of steps) if (us >= size) return threeDigits(us / size) + unit;
  return threeDigits(us * 1000) + " ns";
}

const formatMilliseconds = (ms) => formatMicroseconds(ms * 1000);
const formatPercent = (value) => threeDigits(value) + " %";

/* Time since the start, no finer than `step`: 12 s, 30 min, 1:30 h, 1:02:03. */
function formatTime(seconds, step) {
  if (step < 1 || seconds < 60) return threeDigits(Math.round(seconds * 1000) / 1000) + " s";
  const pad = (number) => String(number).padStart(2, "0");
  const whole = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (step % 60 !== 0) return hours > 0 ? `${hours}:${pad(minutes)}:${pad(rest)}` : `${minutes}:${pad(rest)}`;
  if (hours === 0) return `${minutes} min`;
  return minutes === 0 ? `${hours} h` : `${hours}:${pad(minutes)} h`;
}

/* ---- Sampling for the screen ---- */

/* The first index whose time is not before t. */
function firstIndex(times, t) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* What a stretch of a column leaves: its minimum and maximum in their order, or twice its mean. */
function stretchPair(values, from, to, mean) {
  let low = -1;
  let high = -1;
  let sum = 0;
  let count = 0;
  for (let i = from; i < to; i++) {
    const value = values[i];
    if (value !== value) continue;
    if (low < 0 || value < values[low]) low = i;
    if (high < 0 || value > values[high]) high = i;
    sum += value;
    count++;
  }
  if (count === 0) return from < to ? [NaN, NaN] : [null, null];
  if (mean) return [sum / count, sum / count];
  return low < high ? [values[low], values[high]] : [values[high], values[low]];
}

/* Rows for dygraphs, [time, a value a series], of the time from `from` to `to`. Up to `stretches`
   intervals of each series come as they are; of more, each stretch leaves two rows. Between rows
   of other series a series has null (drawn through), where nothing completed NaN (a gap). */
function sampleRows(series, from, to, stretches) {
  const ranges = series.map((one) => [
    Math.max(0, firstIndex(one.times, from) - 1),
    Math.min(one.times.length, firstIndex(one.times, to) + 1),
  ]);
  const most = Math.max(0, ...ranges.map(([start, end]) => end - start));
  if (most <= 2 * stretches) return wholeRows(series, ranges);
  const width = (to - from) / stretches;
  const first = Math.floor(from / width);
  const result = [];
  const places = ranges.map(([start]) => start);
  for (let s = first; s * width < to; s++) {
    const early = [s * width];
    const late = [(s + 0.5) * width];
    series.forEach((one, n) => {
      const start = places[n];
      let end = start;
      while (end < ranges[n][1] && one.times[end] < (s + 1) * width) end++;
      places[n] = end;
      const pair = stretchPair(one.values, start, end, one.mean);
      early.push(pair[0]);
      late.push(pair[1]);
    });
    result.push(early, late);
  }
  return result;
}

function wholeRows(series, ranges) {
  const byTime = new Map();
  series.forEach((one, n) => {
    for (let i = ranges[n][0]; i < ranges[n][1]; i++) {
      let row = byTime.get(one.times[i]);
      if (!row) {
        row = new Array(series.length + 1).fill(null);
        row[0] = one.times[i];
        byTime.set(row[0], row);
      }
      row[n + 1] = one.values[i];
    }
  });
  return [...byTime.values()].sort((a, b) => a[0] - b[0]);
}
