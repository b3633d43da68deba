// Strips of tokens: each id as the engine sent it, with its logprob and whether it has weight.

const AT_ONCE = 400;

/** How likely a token was, in steps; what is missing and what is no logprob are told from the unlikely. */
function likelihood(logprob) {
  if (logprob === null || logprob === undefined) return "lp-none";
  if (typeof logprob !== "number" || logprob > 0) return "lp-bad";
  return `lp-${[-0.01, -0.1, -0.5, -1, -3].findIndex((bound) => logprob >= bound) + 1 || 6}`;
}

function cellsOf(ids, logprobs, kind, offset, from, to) {
  const fragment = document.createDocumentFragment();
  for (let index = from; index < to; index++) {
    const id = ids[index], logprob = kind === "context" ? undefined : logprobs ? logprobs[index] : null;
    const shown = kind === "context" ? null : logprob === null || logprob === undefined ? "none" : typeof logprob === "number" ? String(Number(logprob.toFixed(3))) : logprob;
    const bad = typeof id !== "number" || id < 0;
    const title = `position ${offset + index}, id ${id}${shown === null ? "" : `, logprob ${logprob === undefined ? "none" : logprob}`}, ${kind === "weight" ? "weight 1" : "weight 0"}`;
    fragment.append(el("span", { class: `tok ${kind} ${kind === "context" ? "" : likelihood(logprob)}${bad ? " bad-id" : ""}`, title }, el("b", {}, id), shown === null ? null : el("i", {}, shown)));
  }
  return fragment;
}

/** Ids in a row, some at first. `kind`: context, weight (sampled, trained on) or masked (sampled, not trained on). */
function strip(ids, logprobs, kind, offset, total) {
  if (ids === null) return el("p", { class: "empty" }, "The engine sent no ids.");
  const box = el("div", { class: "strip", role: "group", "aria-label": `${total} ids, ${kind === "weight" ? "with weight" : "without weight"}` });
  let shown = Math.min(AT_ONCE, ids.length);
  box.append(cellsOf(ids, logprobs, kind, offset, 0, shown));
  const note = el("span", { class: "note" }, total > ids.length ? `${total - ids.length} more are in the evidence alone.` : "");
  const button = el("button", { type: "button", class: "copy", click: () => {
    const next = Math.min(shown + 5 * AT_ONCE, ids.length);
    box.append(cellsOf(ids, logprobs, kind, offset, shown, next));
    shown = next;
    if (shown >= ids.length) button.remove();
    else button.textContent = `Show more (${ids.length - shown} left)`;
  } }, `Show more (${ids.length - shown} left)`);
  return el("div", {}, box, shown < ids.length ? button : null, note);
}

function tokenSection(call, turn) {
  const section = el("section", { class: "tokens" }, el("h2", {}, "Tokens"), tokenLegend());
  const prompt = call.prompt;
  if (prompt.error) put(section, el("p", { class: "empty" }, `The prompt cannot be shown: ${prompt.error}`));
  else {
    const shared = prompt.shared ? `, of which ${prompt.shared} are those of call ${turn.parent} with its reply` : "";
    put(section, el("h3", {}, "prompt ", el("small", {}, known(prompt.count), prompt.count === null ? "" : ` ids${shared}; weight 0`)), strip(prompt.ids, null, "context", prompt.shared, prompt.count - prompt.shared));
  }
  for (const sample of call.samples) {
    const weighted = Boolean(turn && turn.weight && turn.choice === sample.index);
    const uneven = sample.ids && sample.logprobs && sample.ids.length !== sample.logprobs.length ? `; ${sample.logprobs.length} logprobs for ${sample.ids.length} ids` : "";
    const heading = [known(sample.count), ` ids; finish reason ${sample.finish === null ? "none" : sample.finish}; ${weighted ? "weight 1" : "weight 0"}${uneven}${sample.logprobs === null ? "; no logprobs" : ""}`];
    put(section, el("h3", {}, `sampled, choice ${sample.index} `, el("small", {}, heading)), strip(sample.ids, sample.logprobs, weighted ? "weight" : "masked", prompt.count || 0, sample.count));
  }
  if (!call.samples.length) put(section, el("p", { class: "empty" }, "Nothing was sampled in this call."));
  return section;
}

function tokenLegend() {
  const sample = (kind, likely, text) => el("span", {}, el("span", { class: `tok ${kind} ${likely}` }, el("b", {}, "17")), ` ${text}`);
  return el("p", { class: "legend" }, sample("context", "", "prompt"), sample("weight", "lp-1", "likely"), sample("weight", "lp-6", "unlikely"), sample("masked", "lp-1", "sampled without weight"), sample("weight", "lp-none", "no logprob"), sample("weight", "lp-bad", "no logprob that can be one"));
}
