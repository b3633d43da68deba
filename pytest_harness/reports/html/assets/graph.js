// The graph of prompts: a line a call, from left to right its ids; a prompt begins where it leaves what it continues.

const LINES = 400;

function graphSection(id, data) {
  const section = el("section", {}, el("h2", {}, "Which prompt continues which reply"));
  if (data.turns.error) return put(section, [el("p", { class: "empty" }, `The graph cannot be drawn: ${data.turns.error}`)]);
  const turns = new Map(data.turns.map((turn) => [turn.call, turn]));
  const calls = data.calls.slice(0, LINES);
  const longest = Math.max(1, ...data.turns.map((turn) => turn.length));
  const left = 190, width = 720, line = 24, x = (ids) => left + width * ids / longest;
  const y = new Map(calls.map((call, index) => [call.index, 26 + line * index]));
  const marks = calls.map((call) => {
    const turn = turns.get(call.index), at = y.get(call.index);
    const label = svg("text", { x: 4, y: at + 4, class: "call" }, `${call.index} ${turn ? turn.role : call.model_call ? call.outcome.replace("_", " ") : "no model call"}${turn && turn.fate !== "used" ? `, ${turn.fate}` : ""}`);
    const title = turn
      ? `call ${call.index}: ${turn.prompt} prompt ids, ${turn.shared} of them shared with ${turn.parent === null ? "none" : `call ${turn.parent}`}; ${turn.length - turn.prompt} sampled; ${turn.role}, ${turn.fate}${turn.why ? `: ${turn.why}` : ""}; weight ${turn.weight ? 1 : 0}`
      : `call ${call.index}: ${call.method} ${call.path.slice(0, 200)}: ${call.outcome}; no turn`;
    const shapes = turn ? [
      turn.parent !== null && y.has(turn.parent) ? svg("path", { class: "link", d: `M${x(turn.shared)} ${y.get(turn.parent) + 7} V${at - 7}` }) : null,
      turn.shared ? svg("line", { class: "shared", x1: left, x2: x(turn.shared), y1: at, y2: at }) : null,
      svg("rect", { class: "context", x: x(turn.shared), y: at - 7, width: Math.max(1.5, x(turn.prompt) - x(turn.shared)), height: 14 }),
      svg("rect", { class: `sampled ${turn.role} ${turn.weight ? "weight" : "masked"}`, x: x(turn.prompt), y: at - 7, width: Math.max(3, x(turn.length) - x(turn.prompt)), height: 14 }),
    ] : [svg("circle", { class: "no-turn", cx: left + 6, cy: at, r: 4 })];
    return svg("a", { href: toCall(id, call.index), "aria-label": title }, svg("title", {}, title), svg("rect", { class: "row", x: 0, y: at - line / 2, width: left + width + 60, height: line }), shapes, label);
  });
  const height = 34 + line * calls.length;
  const drawing = svg("svg", { class: "graph", viewBox: `0 0 ${left + width + 60} ${height}`, width: left + width + 60, height, role: "group", "aria-label": "The calls as a graph of prompts" },
    [0, 0.5, 1].map((part) => svg("text", { x: x(longest * part), y: 10, class: "axis", "text-anchor": part ? "middle" : "start" }, `${Math.round(longest * part).toLocaleString("en")}${part ? "" : " ids"}`)), marks);
  const roots = data.turns.filter((turn) => turn.parent === null).length;
  const continued = new Map();
  for (const turn of data.turns) if (turn.parent !== null) continued.set(turn.parent, (continued.get(turn.parent) || 0) + 1);
  const forks = [...continued.values()].filter((count) => count > 1).length;
  put(section,
    el("p", { class: "told" }, `${data.turns.length} turns in ${data.calls.length} calls; ${roots} ${roots === 1 ? "root" : "roots"}, ${forks} ${forks === 1 ? "fork" : "forks"}.`),
    el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "graph" }, drawing),
    data.calls.length > calls.length ? el("p", { class: "note" }, `${data.calls.length - calls.length} more calls are in the list below.`) : null,
    el("p", { class: "legend" }, [["context", "what the prompt adds"], ["sampled weight", "sampled, weight 1"], ["sampled masked", "sampled, weight 0"]].map(([kind, text]) => el("span", {}, svg("svg", { width: 22, height: 12, class: "graph", "aria-hidden": "true" }, svg("rect", { class: kind, x: 0, y: 0, width: 22, height: 12 })), ` ${text}`)), el("span", {}, "a line between two: the lower continues the upper")));
  return section;
}
