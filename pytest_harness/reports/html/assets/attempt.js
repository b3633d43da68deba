// One attempt: what it came to, its graph, its calls, its trajectory and files; and one call of it.

async function showAttempt(main, { attempt, seam }) {
  const place = seam.attempts.indexOf(attempt), before = seam.attempts[place - 1], after = seam.attempts[place + 1];
  const broken = seam.requirements.filter((requirement) => ["failed", "error", "deviation"].some((result) => (attempt.results[result] || []).includes(requirement.id)));
  put(main,
    crumbs([seam.name, toSeam(seam)], [attemptName(attempt), null]),
    el("h1", {}, attempt.name),
    el("p", { class: `verdict ${attempt.valid ? "" : "bad"}` }, attempt.valid ? "It counts." : `It counts for nothing; to blame: ${attempt.blame}: ${attempt.reason}`));
  const held = await attemptData(attempt.id);
  const data = held.data;
  put(main, facts([
    ["scenario", attempt.scenario], ["engine", attempt.engine], ["attempt", String(attempt.attempt)],
    ["reward", el("span", {}, rewardText(attempt), attempt.reward_reason ? ` (${attempt.reward_reason})` : "", attempt.reward_key ? `, named ${attempt.reward_key}` : "")],
    ["calls", String(attempt.calls)], ["prompt ids", known(attempt.prompt_tokens)], ["sampled ids", known(attempt.sampled_tokens)],
    ["model", data && data.model], ["network", data && data.network], ["ended", data && (data.ending.how === "finished" ? "by itself" : `${data.ending.exception_type}: ${data.ending.exception_message}`)],
    ["from", attempt.started_at], ["to", attempt.ended_at], ["versions", Object.entries(attempt.versions).map(([name, version]) => `${name} ${version}`).join(", ")], ["evidence", el("code", {}, attempt.evidence)],
  ]), command(`pytest --replay ${quoted(attempt.evidence)}${DATA.report.sabotage ? ` --sabotage ${DATA.report.sabotage}` : ""}`),
  el("section", {}, el("h2", {}, broken.length ? `Broken here: ${broken.length}` : "Nothing is broken here"), el("ul", { class: "requirements" }, broken.map((requirement) => el("li", { class: toneOf(requirement) }, el("a", { href: toSeam(seam, requirement.id) }, el("span", { class: "mark" }, MARKS[resultIn(attempt, requirement.id)]), ` ${requirement.id} ${requirement.title}`))))));
  if (held.absent) put(main, el("p", { class: "empty" }, held.absent));
  else put(main, graphSection(attempt.id, data), callsSection(attempt.id, data), trajectorySection(attempt.id, data.trajectory), filesSection(data));
  put(main, neighbours(before && [attemptName(before), toAttempt(before.id)], after && [attemptName(after), toAttempt(after.id)]));
}

function quoted(path) {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\"'\"'")}'`;
}

function callsSection(id, data) {
  const turns = new Map((Array.isArray(data.turns) ? data.turns : []).map((turn) => [turn.call, turn]));
  return el("section", {}, el("h2", {}, `Calls: ${data.calls.length}`), table(["call", "request", "outcome", "delivery", "role", "prompt ids", "sampled ids", "status"], data.calls, (call) => {
    const turn = turns.get(call.index), sampled = call.samples.map((sample) => sample.count).filter((count) => count !== null);
    const reply = call.forms.delivered || call.forms.replied;
    return el("tr", { class: call.outcome === "complete" ? "" : "warn" },
      el("th", { scope: "row" }, el("a", { href: toCall(id, call.index) }, `call ${call.index}`)), el("td", { class: "path" }, `${call.method} ${call.path}`), el("td", {}, call.outcome.replace("_", " ")), el("td", {}, call.delivery.replace("_", " ")),
      el("td", {}, turn ? `${turn.role}${turn.fate === "used" ? "" : `, ${turn.fate}`}` : "no turn"), el("td", {}, known(call.prompt.count === undefined ? null : call.prompt.count)), el("td", {}, known(sampled.length ? sampled.reduce((sum, count) => sum + count) : null)), el("td", {}, known(reply ? reply.status : null)));
  }, { label: "calls" }), data.calls_left_out ? el("p", { class: "note" }, `${data.calls_left_out} more are in the evidence alone.`) : null);
}

function filesSection(data) {
  return el("section", {}, el("details", {}, el("summary", {}, `${data.files.length + data.files_left_out} files of the trial, in its evidence`), lazily(el("ul", { class: "files" }), data.files, (file) => el("li", {}, el("code", {}, file)))));
}

async function showCall(main, { attempt, seam }, index, query) {
  const held = await attemptData(attempt.id);
  if (held.absent) return void put(main, crumbs([seam.name, toSeam(seam)], [attemptName(attempt), toAttempt(attempt.id)]), el("h1", {}, `Call ${index}`), el("p", { class: "empty" }, held.absent));
  const data = held.data, place = data.calls.findIndex((each) => String(each.index) === index), call = data.calls[place];
  if (!call) return void put(main, el("h1", {}, `There is no call ${index} on this page`), el("p", {}, el("a", { href: toAttempt(attempt.id) }, attempt.name)));
  const turn = (Array.isArray(data.turns) ? data.turns : []).find((each) => each.call === call.index) || null;
  const before = data.calls[place - 1], after = data.calls[place + 1];
  const found = seam.requirements.flatMap((requirement) => requirement.findings.filter((finding) => finding.attempt_id === attempt.id && finding.call === call.index).map((finding) => ({ requirement, finding })));
  const first = found[0] && placeOf(found[0].finding.where);
  const asked = query.get("form") ? { form: query.get("form"), at: query.get("at") || undefined } : first || {};
  const words = found.flatMap(({ finding }) => finding.expected.match(/[a-z_]{4,}/g) || []);
  const accused = { form: asked.form, names: [asked.at, ...words].filter(Boolean) };
  const tokensFirst = !accused.form && found.some(({ finding }) => /samples|prompt_ids/.test(finding.where));
  put(main,
    crumbs([seam.name, toSeam(seam)], [attemptName(attempt), toAttempt(attempt.id)], [`call ${call.index}`, null]),
    el("h1", {}, `Call ${call.index} `, el("small", {}, `${call.method} ${call.path}`)),
    facts([
      ["outcome", call.outcome.replace("_", " ")], ["error", call.error], ["delivery", call.delivery.replace("_", " ")], ["dialect", call.dialect], ["streamed", call.streamed ? "yes" : "no"],
      ["turn", turn ? `${turn.role}, ${turn.fate}${turn.why ? `: ${turn.why}` : ""}` : "no turn"], ["continues", turn && turn.parent !== null ? el("a", { href: toCall(attempt.id, turn.parent) }, `call ${turn.parent}`) : turn ? "none" : null],
      ["until forwarded", elapsed(call.times, "forwarded")], ["until first byte", elapsed(call.times, "first_byte")], ["until replied", elapsed(call.times, "replied")], ["until delivered", elapsed(call.times, "delivered")],
      ["constraints", call.constraints.join(", ")], ["notes", call.notes.join(" ")], ["id", el("code", {}, call.id)],
    ]),
    found.length ? el("section", {}, el("h2", {}, "What was found here"), el("ul", { class: "cards" }, found.map(({ requirement, finding }) => findingCard(seam, requirement, finding)))) : null,
    tokensFirst ? [tokenSection(call, turn), bytesSection(data, call, accused)] : [bytesSection(data, call, accused), tokenSection(call, turn)],
    neighbours(before && [`call ${before.index}`, toCall(attempt.id, before.index)], after && [`call ${after.index}`, toCall(attempt.id, after.index)]));
}

function elapsed(times, moment) {
  return times[moment] === null ? known(null) : `${((times[moment] - times.received) * 1000).toFixed(1)} ms`;
}
