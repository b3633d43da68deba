// Where one is: #/ the matrix, #/seam/2, #/seam/2/LGP-003, #/attempt/ID, #/attempt/ID/call/4; behind ? what is chosen there.

function here() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query || "") };
}

function to(parts, query) {
  const chosen = new URLSearchParams(Object.entries(query || {}).filter(([, value]) => value !== "" && value !== null && value !== undefined));
  const text = chosen.toString();
  return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}${text ? `?${text}` : ""}`;
}

function toSeam(seam, ...more) {
  return to(["seam", seam.number, ...more]);
}

function toAttempt(id) {
  return to(["attempt", id]);
}

function toCall(id, call, query) {
  return to(["attempt", id, "call", call], query);
}

/** The place that a finding speaks of: its call with the form of it, or its attempt. */
function toFinding(finding) {
  if (finding.call === null) return toAttempt(finding.attempt_id);
  return toCall(finding.attempt_id, finding.call, placeOf(finding.where));
}

/** Which of the four forms a finding points into, and the last name in it, if it names more than the body. */
function placeOf(where) {
  const form = (where.match(/\b(received|forwarded|replied|delivered)\b/) || [])[1];
  const names = where.split(/line \d+/).pop().match(/[A-Za-z_][A-Za-z0-9_-]*/g) || [];
  const last = names[names.length - 1];
  return { form, at: last === form || last === "body" ? undefined : last };
}

const MATRIX = { query: {} };

function toMatrix() {
  return to([], MATRIX.query);
}

function crumbs(...links) {
  const items = [["Matrix", toMatrix()], ...links];
  return el("nav", { class: "crumbs", "aria-label": "Where you are" }, el("ol", {}, items.map(([name, target]) => el("li", {}, target ? el("a", { href: target }, name) : el("span", { "aria-current": "page" }, name)))));
}

/** Links to the neighbours, for the keys n and p. */
function neighbours(previous, next) {
  return el("nav", { class: "neighbours", "aria-label": "Neighbours" },
    previous ? el("a", { href: previous[1], rel: "prev" }, `← ${previous[0]}`) : el("span"),
    next ? el("a", { href: next[1], rel: "next" }, `${next[0]} →`) : el("span"));
}
