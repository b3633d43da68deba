// One seam: its verdict, rewards, requirements and attempts; and one requirement of it.

function showSeam(main, seam) {
  const before = DATA.seams[seam.number - 1], after = DATA.seams[seam.number + 1];
  put(main,
    crumbs([seam.name, null]),
    el("h1", {}, seam.name),
    el("p", { class: `verdict ${seam.status}` }, el("b", {}, seam.status), seam.why ? ` ${seam.why}` : ""),
    facts([
      ["harness", `${seam.harness} ${seam.version || "of unknown version"}`], ["sandbox", seam.sandbox], ["dialect", seam.dialect],
      ["engines", seam.engines.join(", ") || "none"], ["required checks", `${seam.ran} of ${seam.required} ran`],
      ["mean reward", seam.mean_reward === null ? known(null) : `${seam.mean_reward} over ${seam.graded} that count`], ["row", el("code", {}, seam.row.slice(0, 12))],
    ]),
    rewardChart(seam),
    findingsSection([{ seam, requirements: seam.requirements }], { engine: "" }),
    seam.stale_deviations.length ? el("section", {}, el("h2", {}, "Known deviations that no longer occur"), el("ul", {}, seam.stale_deviations.map((each) => el("li", {}, each)))) : null,
    requirementsSection(seam),
    el("section", {}, el("h2", {}, `Attempts: ${seam.attempts.length}`), attemptsTable(seam.attempts)),
    neighbours(before && [before.name, toSeam(before)], after && [after.name, toSeam(after)]));
}

function requirementsSection(seam) {
  const section = el("section", {}, el("h2", {}, "Requirements"));
  for (const [family, name] of Object.entries(DATA.families)) {
    const own = seam.requirements.filter((requirement) => requirement.id.startsWith(family));
    if (!own.length) continue;
    put(section, el("h3", { id: `family-${family}`, tabindex: "-1" }, `${family} ${name} `, el("small", {}, countOf(own).text)),
      el("ul", { class: "requirements" }, own.map((requirement) => el("li", { class: toneOf(requirement) },
        el("a", { href: toSeam(seam, requirement.id) }, el("span", { class: "mark", title: standingText(requirement) }, MARKS[requirement.standing]), ` ${requirement.id} ${requirement.title}`),
        el("small", {}, ` ${requirement.level}${requirement.draft ? ", draft" : ""} · ${standingText(requirement)}`)))));
  }
  return section;
}

function attemptsTable(attempts) {
  return table(["scenario", "engine", "attempt", "counts", "reward", "calls", "prompt ids", "sampled ids", "failed"], attempts, (attempt) => el("tr", { class: attempt.valid ? "" : "invalid" },
    el("th", { scope: "row" }, el("a", { href: toAttempt(attempt.id) }, attempt.scenario)),
    el("td", {}, attempt.engine), el("td", {}, attempt.attempt), el("td", {}, attempt.valid ? "yes" : `no: ${attempt.blame}`),
    el("td", {}, rewardText(attempt)), el("td", {}, attempt.calls), el("td", {}, known(attempt.prompt_tokens)), el("td", {}, known(attempt.sampled_tokens)),
    el("td", {}, (attempt.results.failed || []).join(", ") || "–")), { label: "attempts" });
}

function rewardText(attempt) {
  if (attempt.reward === null) return known(null);
  return attempt.reward_state === "valid" ? String(attempt.reward) : `${attempt.reward}, does not count`;
}

/** Each attempt's reward as a dot; those without one stand in a lane of their own below, never at 0. */
function rewardChart(seam) {
  const shown = seam.attempts.slice(0, 200);
  const given = shown.filter((attempt) => attempt.reward !== null).map((attempt) => attempt.reward);
  if (!shown.length) return null;
  const low = Math.min(0, ...given), high = Math.max(1, ...given), step = Math.max(6, Math.min(24, 640 / shown.length));
  const y = (reward) => 12 + 60 * (high - reward) / (high - low);
  const lane = 98, width = 60 + step * shown.length;
  const dots = shown.map((attempt, index) => {
    const x = 48 + step * (index + 0.5);
    const title = `${attemptName(attempt)}: ${attempt.reward === null ? `none, ${attempt.reward_reason || attempt.reward_state}` : attempt.reward}`;
    const mark = attempt.reward === null
      ? svg("rect", { class: "no-reward", x: x - 3, y: lane - 3, width: 6, height: 6 })
      : svg("circle", { class: attempt.reward_state === "valid" ? "reward" : "reward void", cx: x, cy: y(attempt.reward), r: 4 });
    return svg("a", { href: toAttempt(attempt.id), "aria-label": title }, svg("title", {}, title), mark);
  });
  const label = (text, at) => svg("text", { x: 40, y: at + 4, "text-anchor": "end" }, text);
  return el("figure", {},
    svg("svg", { class: "rewards", viewBox: `0 0 ${width} 112`, width, height: 112, role: "group", "aria-label": "Rewards of the attempts" },
      svg("line", { x1: 46, x2: width, y1: y(high), y2: y(high) }), svg("line", { x1: 46, x2: width, y1: y(low), y2: y(low) }), svg("line", { class: "lane", x1: 46, x2: width, y1: lane, y2: lane }),
      label(high, y(high)), label(low, y(low)), label("none", lane), dots),
    el("figcaption", {}, `Rewards of ${shown.length} of ${seam.attempts.length} attempts; hollow: it does not count; a square: there is none, which is not 0.`));
}

function showRequirement(main, seam, requirement) {
  const place = seam.requirements.indexOf(requirement);
  const before = seam.requirements[place - 1], after = seam.requirements[place + 1];
  const judged = seam.attempts.map((attempt) => ({ attempt, result: resultIn(attempt, requirement.id) })).filter(({ result }) => result);
  put(main,
    crumbs([seam.name, toSeam(seam)], [requirement.id, null]),
    el("h1", {}, `${requirement.id} ${requirement.title}`),
    el("p", { class: `verdict ${toneOf(requirement)}` }, el("b", {}, `${MARKS[requirement.standing]} ${standingText(requirement)}`), ` · ${levelText(requirement)}${requirement.occasional ? ", required only where it comes up" : ""}`),
    el("p", { class: "statement" }, requirement.statement), el("p", {}, el("i", {}, "Why: "), requirement.why),
    requirement.reasons.length ? el("ul", {}, requirement.reasons.map((reason) => el("li", {}, reason))) : null,
    requirement.findings.length ? el("section", {}, el("h2", {}, `Findings: ${requirement.findings.length}`),
      lazily(el("ul", { class: "cards" }), requirement.findings, (finding) => findingCard(seam, requirement, finding), 20)) : null,
    el("section", {}, el("h2", {}, "Attempts"),
      judged.length ? lazily(el("ul", { class: "chips" }), judged, ({ attempt, result }) => el("li", { class: { passed: "ok", failed: "bad", error: "bad", deviation: "warn" }[result] || "quiet" },
        el("a", { href: toAttempt(attempt.id) }, el("span", { class: "mark" }, MARKS[result]), ` ${attemptName(attempt)}`), el("small", {}, ` ${result.replace("_", " ")}`))) : el("p", { class: "empty" }, "No attempt was judged by it.")),
    neighbours(before && [before.id, toSeam(seam, before.id)], after && [after.id, toSeam(seam, after.id)]));
}
