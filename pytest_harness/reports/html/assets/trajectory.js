// The harness's own trajectory beside the capture, step by step, with what differs marked.

const BY = { reply: "both name the reply", calls: "both name the tool calls", text: "the text is in one call only", place: "only this place is left", order: "by their order alone" };

function trajectorySection(id, trajectory) {
  const section = el("section", {}, el("h2", {}, "Trajectory beside capture"));
  if (trajectory.error || trajectory.absent) return put(section, [el("p", { class: "empty" }, trajectory.error ? `It cannot be shown: ${trajectory.error}` : `None: ${trajectory.absent}.`)]);
  const differing = trajectory.rows.filter((row) => row.compared.some((each) => each.same === false)).length;
  put(section,
    el("p", { class: "told" }, `${trajectory.rows.length} rows, ${differing || "none"} of them with a difference. What differs here may be explained by the seam's row; the ATF requirements judge it.`),
    lazily(el("ol", { class: "beside" }), trajectory.rows, (row) => besideRow(id, row), 30),
    trajectory.left_out ? el("p", { class: "note" }, `${trajectory.left_out} more are in the evidence alone.`) : null);
  return section;
}

function besideRow(id, row) {
  const differs = row.compared.some((each) => each.same === false);
  return el("li", { class: differs ? "warn" : "" },
    el("div", { class: "sides" },
      el("div", {}, el("h3", {}, "trajectory"), row.steps.length ? row.steps.map((step) => el("div", {}, el("p", { class: "at" }, `${step.at}, ${step.source}${step.copied ? ", copied" : ""}`), said(step.text, step.calls), step.results ? el("p", { class: "note" }, `${step.results} ${step.results === 1 ? "result" : "results"}`) : null)) : el("p", { class: "none" }, "no step")),
      el("div", {}, el("h3", {}, "capture"), row.calls.length ? row.calls.map((call) => el("div", {}, el("p", { class: "at" }, el("a", { href: toCall(id, call.index) }, `call ${call.index}`), row.by ? `, ${BY[row.by]}` : ""), said(call.text, call.calls))) : row.compared.length ? el("p", { class: "none" }, "no call") : null)),
    row.compared.length ? el("table", { class: "plain compared" }, el("thead", {}, el("tr", {}, ["", "trajectory", "capture", ""].map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, row.compared.map(comparedRow))) : null);
}

function comparedRow(each) {
  if (each.why) return el("tr", { class: "warn" }, el("th", { scope: "row" }, each.what), el("td", { colspan: 3 }, `≠ ${each.why}`));
  const verdict = each.same === null ? "not on both sides" : each.same ? "=" : "≠";
  const wordy = (value) => (value === null ? known(null) : value === "" ? "(empty)" : each.same ? "the same" : value);
  const value = typeof each.captured === "string" || typeof each.logged === "string" ? wordy : known;
  return el("tr", { class: each.same === false ? "warn" : "" }, el("th", { scope: "row" }, each.what), el("td", {}, value(each.logged)), el("td", {}, value(each.captured)), el("td", {}, verdict));
}

function said(text, calls) {
  return [text ? el("pre", { class: "said" }, text) : null, calls.map((call) => el("pre", { class: "said tool" }, call))];
}
