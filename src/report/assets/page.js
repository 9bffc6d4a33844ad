/* page.js -- what the page's controls do, and the start. */

/* ---- The summary table ---- */

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

/* ---- The baseline ---- */

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

/* ---- Theme and print ---- */

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
