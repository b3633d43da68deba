// The matrix: a row a seam, a column a family or a requirement, what is chosen, and the findings below it.

const STANDINGS = ["failed", "unstable", "error", "deviation", "unverifiable", "not_exercised", "passed"];

const CELLS_AT_ONCE = 1200;

const LEAD = "May the tokens that these agent harnesses leave be trained on? A row is a harness in a sandbox, a column a family of requirements, each checked against what was captured. Red is broken.";
const VERDICTS = {
  validated: "every requirement is met, on a scripted and a real engine, several times", untested: "nothing speaks against it, but more runs are needed",
  unstable: "a requirement is met in some attempts only", unsupported: "a requirement is not met", blocked: "nothing could be found out",
};

function distinct(values) {
  return [...new Set(values)].sort();
}

function filtersOf(query) {
  const get = (name) => query.get(name) || "";
  return { q: get("q"), harness: get("harness"), sandbox: get("sandbox"), engine: get("engine"), family: get("family"), level: get("level"), outcome: get("outcome"), view: get("view") };
}

/** Which requirements of which seams are asked for, as pairs by seam. */
function chosen(filters) {
  const needle = filters.q.trim().toLowerCase();
  const rows = [];
  for (const seam of DATA.seams) {
    if (filters.harness && seam.harness !== filters.harness) continue;
    if (filters.sandbox && seam.sandbox !== filters.sandbox) continue;
    if (filters.engine && !seam.engines.includes(filters.engine)) continue;
    const named = !needle || `${seam.name} ${seam.version} ${seam.status} ${seam.why}`.toLowerCase().includes(needle);
    const requirements = seam.requirements.filter((requirement) =>
      (named || requirement.haystack.includes(needle)) &&
      (!filters.family || requirement.id.startsWith(filters.family)) &&
      (!filters.level || (filters.level === "draft" ? requirement.draft : !requirement.draft && requirement.level === filters.level)) &&
      (!filters.outcome || requirement.standing === filters.outcome));
    const narrowed = filters.family || filters.level || filters.outcome || !named;
    if (requirements.length || !narrowed) rows.push({ seam, requirements });
  }
  return rows;
}

function showMatrix(main, query) {
  const filters = filtersOf(query);
  MATRIX.query = filters;
  const result = el("div", { class: "result" });
  const update = () => {
    MATRIX.query = filters;
    history.replaceState(null, "", to([], filters));
    fillMatrix(result, filters);
  };
  put(main, el("h1", {}, "Conformance matrix"), el("p", { class: "lead" }, LEAD), filterBar(filters, update), result);
  fillMatrix(result, filters);
}

function filterBar(filters, update) {
  const seams = DATA.seams;
  const families = Object.keys(DATA.families).filter((family) => seams.some((seam) => family in seam.families));
  const select = (name, label, values, text = (value) => value) => el("label", {}, label,
    el("select", { name, change: (event) => { filters[name] = event.target.value; update(); } },
      el("option", { value: "" }, "all"),
      values.map((value) => el("option", { value, selected: filters[name] === value }, text(value)))));
  const view = (value, label) => el("button", {
    type: "button", "aria-pressed": String((filters.view || "families") === value), "data-view": value,
    click: (event) => {
      filters.view = value === "families" ? "" : value;
      for (const button of event.target.parentElement.children) button.setAttribute("aria-pressed", String(button === event.target));
      update();
    },
  }, label);
  const bar = el("form", { class: "filters", role: "search", "aria-label": "What to show", submit: (event) => event.preventDefault() },
    el("label", { class: "search" }, "search", el("input", { type: "search", id: "search", value: filters.q, placeholder: "a seam, a requirement, a text of a finding", autocomplete: "off", input: (event) => { filters.q = event.target.value; update(); } })),
    select("harness", "harness", distinct(seams.map((seam) => seam.harness))),
    select("sandbox", "sandbox", distinct(seams.map((seam) => seam.sandbox))),
    select("engine", "engine", distinct(seams.flatMap((seam) => seam.engines))),
    select("family", "family", families, (family) => `${family} ${DATA.families[family]}`),
    select("level", "level", ["MUST", "SHOULD", "draft"]),
    select("outcome", "outcome", STANDINGS, (value) => value.replace("_", " ")),
    el("div", { class: "views", role: "group", "aria-label": "Columns" }, view("families", "families"), view("requirements", "requirements")));
  put(bar, el("button", { type: "button", class: "plain", click: () => { location.hash = "#/"; } }, "Clear"));
  return bar;
}

function fillMatrix(result, filters) {
  const rows = chosen(filters);
  const columns = filters.view === "requirements" ? requirementColumns(rows) : familyColumns(rows);
  const speaking = rows.filter((row) => !["validated", "untested"].includes(row.seam.status)).length;
  say(`${rows.length} of ${DATA.seams.length} seams are shown.`);
  result.replaceChildren();
  put(result,
    el("p", { class: "told" }, `${rows.length} of ${DATA.seams.length} seams; something speaks against ${speaking || "none"}${speaking ? "" : " of them"}.`),
    rows.length ? matrixTable(rows, columns, filters) : el("p", { class: "empty" }, "No seam has what is asked for. Clear the filters to see all."),
    legend(filters.view), meanings(rows),
    findingsSection(rows, filters),
    leftOutSection());
}

const NOTHING = { text: "-", tone: "quiet", label: "no requirement of this family applies" };

function familyColumns(rows) {
  return Object.keys(DATA.families)
    .filter((family) => rows.some((row) => row.requirements.some((each) => each.id.startsWith(family))))
    .map((family) => ({
      head: family, title: DATA.families[family],
      cell(row) {
        const own = row.requirements.filter((each) => each.id.startsWith(family));
        const { text, tone } = countOf(own);
        if (!(family in row.seam.families)) return NOTHING;
        return own.length ? { text, tone, href: toSeam(row.seam) + `?family=${family}`, label: `${row.seam.name}, ${DATA.families[family]}: ${text}` } : null;
      },
    }));
}

function requirementColumns(rows) {
  const titles = new Map();
  for (const row of rows) for (const requirement of row.requirements) titles.set(requirement.id, requirement.title);
  const families = Object.keys(DATA.families);
  const order = (id) => `${String(families.indexOf(id.slice(0, 3))).padStart(2, "0")}${id}`;
  return [...titles.keys()].sort((one, other) => order(one).localeCompare(order(other))).map((id) => ({
    head: id, title: titles.get(id),
    cell(row) {
      const requirement = row.byRequirement.get(id);
      if (!requirement) return null;
      return { text: MARKS[requirement.standing], tone: toneOf(requirement), href: toSeam(row.seam, id), label: `${row.seam.name}, ${id} ${requirement.title}: ${standingText(requirement)}` };
    },
  }));
}

function matrixTable(rows, columns, filters) {
  for (const row of rows) row.byRequirement = new Map(row.requirements.map((requirement) => [requirement.id, requirement]));
  const body = el("tbody");
  lazily(body, rows, (row) => el("tr", {},
    el("th", { scope: "row" }, el("a", { href: toSeam(row.seam), tabindex: "-1", title: row.seam.name }, row.seam.name)),
    el("td", { class: `status ${row.seam.status}`, "data-head": "verdict" }, el("span", {}, row.seam.status)),
    columns.map((column) => {
      const cell = column.cell(row);
      if (!cell) return el("td", { class: "void" });
      if (!cell.href) return el("td", { class: cell.tone, "data-head": column.head }, el("span", { title: cell.label }, cell.text));
      return el("td", { class: cell.tone, "data-head": column.head }, el("a", { href: cell.href, tabindex: "-1", "aria-label": cell.label, title: cell.label }, cell.text));
    })), Math.max(8, Math.ceil(CELLS_AT_ONCE / columns.length)));
  const heads = columns.map((column) => el("th", { scope: "col" }, el("abbr", { title: column.title }, column.head)));
  const matrix = el("table", { class: `matrix ${filters.view || "families"}`, keydown: moveInMatrix, focusin: rove },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "seam"), el("th", { scope: "col" }, "verdict"), heads)), body);
  const first = matrix.querySelector("tbody a");
  if (first) first.tabIndex = 0;
  return el("div", { class: "wide", role: "region", "aria-label": "Matrix; arrow keys go from cell to cell" }, matrix);
}

/** Only one cell at a time is a stop of the tab key. */
function rove(event) {
  const link = event.target.closest("a");
  if (!link) return;
  for (const other of event.currentTarget.querySelectorAll("tbody a[tabindex='0']")) other.tabIndex = -1;
  link.tabIndex = 0;
}

function moveInMatrix(event) {
  const cell = event.target.closest("td, th");
  if (!cell || event.altKey || event.ctrlKey || event.metaKey) return;
  const row = cell.parentElement;
  const inRow = (cells, index, step) => {
    for (let at = index; at >= 0 && at < cells.length; at += step) if (cells[at].querySelector("a")) return cells[at];
    return null;
  };
  const inColumn = (start, step) => {
    for (let at = start; at; at = step > 0 ? at.nextElementSibling : at.previousElementSibling) if (at.cells[cell.cellIndex] && at.cells[cell.cellIndex].querySelector("a")) return at.cells[cell.cellIndex];
    return null;
  };
  const targets = {
    ArrowRight: () => inRow(row.cells, cell.cellIndex + 1, 1),
    ArrowLeft: () => inRow(row.cells, cell.cellIndex - 1, -1),
    ArrowDown: () => inColumn(row.nextElementSibling, 1),
    ArrowUp: () => inColumn(row.previousElementSibling, -1),
    Home: () => inRow(row.cells, 0, 1),
    End: () => inRow(row.cells, row.cells.length - 1, -1),
  };
  if (!(event.key in targets)) return;
  event.preventDefault();
  const target = targets[event.key]();
  if (target) target.querySelector("a").focus();
}

function legend(view) {
  const marks = view === "requirements"
    ? STANDINGS.map((standing) => el("span", {}, el("b", {}, MARKS[standing]), ` ${standing.replace("_", " ")}`))
    : [el("span", {}, el("b", {}, "7/8"), " of 8 that were exercised 7 are met"), el("span", {}, el("b", {}, "1d"), " broken by a known deviation, a fault of a named version of something else"), el("span", {}, el("b", {}, "-"), " nothing was exercised, which is not 0")];
  return el("p", { class: "legend" }, marks);
}

/** What the verdicts and families that are shown are, in words: a picture of the page has no titles to point at. */
function meanings(rows) {
  const verdicts = distinct(rows.map((row) => row.seam.status)), families = Object.keys(DATA.families).filter((family) => rows.some((row) => family in row.seam.families));
  const terms = (entries) => el("p", { class: "legend" }, entries.map(([name, text]) => el("span", {}, el("b", {}, name), ` ${text}`)));
  return [terms(verdicts.map((status) => [status, VERDICTS[status]])), terms(families.map((family) => [family, DATA.families[family]]))];
}

function leftOutSection() {
  const left = DATA.report.left_out || [];
  if (!left.length) return null;
  return el("section", {}, el("h2", {}, `Not run: ${left.length}`), lazily(el("ul"), left, (each) => el("li", {}, el("b", {}, each.rollout), ` ${each.why}`)));
}
