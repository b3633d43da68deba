// The four forms of a call side by side, the differences between the two of a side marked, and the place that a finding speaks of.

const FORMS = { received: "as the harness sent it", forwarded: "as it went to the engine", replied: "as it came from the engine", delivered: "as the harness was to get it" };
const PAIR = { received: "forwarded", forwarded: "received", replied: "delivered", delivered: "replied" };
const MOST_LINES = 20000;

function bodyOf(data, message) {
  return message ? message.body.map((place) => data.pieces[place]).join("") : null;
}

/** JSON laid out in lines without reading it, so that every number and name stays as it was sent, also one that is no JSON. */
function laidOut(text) {
  if (/^\s*[[{]/.test(text)) return indented(text);
  if (!/^(data|event|id):/m.test(text)) return text;
  return text.split("\n").map((line) => (line.startsWith("data: {") ? `data: ${indented(line.slice(6))}` : line)).join("\n");
}

const JSON_PART = /"(?:[^"\\]|\\.)*"|\[[^[\]{}"]*\]|\{\s*\}|[{}[\],:]|\s+|[^\s{}[\],:"]+|"/gs;

function indented(text) {
  let depth = 0;
  const line = () => `\n${"  ".repeat(Math.max(0, Math.min(depth, 40)))}`;
  return text.replace(JSON_PART, (part) => {
    if (/^\s+$/.test(part)) return "";
    if (part === "{" || part === "[") return depth++, part + line();
    if (part === "}" || part === "]") return depth--, line() + part;
    return part === "," ? part + line() : part === ":" ? ": " : part;
  });
}

/** The lines of each side that the other does not have as often. */
function onlyIn(lines, others) {
  const there = new Map();
  for (const line of others) there.set(line.trim().replace(/,$/, ""), (there.get(line.trim().replace(/,$/, "")) || 0) + 1);
  return lines.map((line) => {
    const key = line.trim().replace(/,$/, ""), left = there.get(key) || 0;
    if (left) there.set(key, left - 1);
    return !left && key !== "";
  });
}

function bytesSection(data, call, accused) {
  const texts = Object.fromEntries(Object.keys(FORMS).map((form) => [form, bodyOf(data, call.forms[form])]));
  // The side that a finding speaks of comes first.
  const order = ["replied", "delivered"].includes(accused.form) ? ["replied", "delivered", "received", "forwarded"] : Object.keys(FORMS);
  let pretty = true;
  const grid = el("div", { class: "panes" });
  const draw = () => grid.replaceChildren(...order.map((form) => pane(form, call.forms[form], texts, pretty, accused)));
  const toggle = el("button", { type: "button", "aria-pressed": "true", click: () => { pretty = !pretty; toggle.setAttribute("aria-pressed", String(pretty)); draw(); } }, "JSON in lines");
  draw();
  return el("section", {}, el("h2", {}, "Bytes"), el("p", { class: "legend" }, toggle, el("span", {}, el("mark", { class: "only" }, "marked"), " not so in the form beside it")), grid);
}

function pane(form, message, texts, pretty, accused) {
  const here = accused.form === form;
  const title = el("h3", {}, form, " ", el("small", {}, FORMS[form], message && message.status !== null ? `, status ${message.status}` : ""));
  if (!message) return el("article", { class: "pane" }, title, el("p", { class: "empty" }, "There is none."));
  const other = texts[PAIR[form]];
  const same = other !== null && other === texts[form];
  const pre = el("pre", { tabindex: "0", "aria-label": `body ${form}` });
  fillBody(pre, texts[form], same ? null : other, pretty, here ? accused.names : []);
  return el("article", { class: `pane${here ? " accused" : ""}` }, title,
    here ? el("p", { class: "note" }, "The finding speaks of this form.") : null,
    el("details", {}, el("summary", {}, `${Object.keys(message.headers).length} headers`), el("dl", { class: "headers" }, Object.entries(message.headers).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))))),
    el("p", { class: "note" }, `${message.length.toLocaleString("en")} characters${same ? `; the same as ${PAIR[form]}` : ""}${message.left_out ? `; ${message.left_out.toLocaleString("en")} of them only in the evidence` : ""}`),
    pre);
}

/** The body with marks: what the other side does not have, and the first of the names that stands in it as a name. */
function fillBody(pre, text, other, pretty, names) {
  const lines = (pretty ? laidOut(text) : text).split("\n");
  const marked = other === null || lines.length > MOST_LINES ? [] : onlyIn(lines, (pretty ? laidOut(other) : other).split("\n"));
  const wanted = names.map((name) => `"${name}"`).find((name) => text.includes(name));
  const chunk = [];
  let first = null;
  const flush = () => { if (chunk.length) pre.append(document.createTextNode(visible(chunk.splice(0).join("")))); };
  lines.forEach((line, index) => {
    const end = index < lines.length - 1 ? "\n" : "";
    const hit = wanted !== undefined && line.includes(wanted);
    if (!marked[index] && !hit) return void chunk.push(line + end);
    flush();
    const element = el("mark", { class: hit ? "hit" : "only" }, line + end);
    if (hit && !first) first = element;
    pre.append(element);
  });
  flush();
  if (first) requestAnimationFrame(() => { pre.scrollTop = first.offsetTop - pre.offsetTop - 40; });
}
