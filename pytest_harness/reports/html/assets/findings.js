// What was found, one card each: what was expected and seen, where, and the command that shows it again.

function findingsSection(rows, filters) {
  const found = [];
  for (const { seam, requirements } of rows) {
    for (const requirement of requirements) {
      if (!isBroken(requirement) && requirement.standing !== "deviation") continue;
      for (const finding of requirement.findings) {
        const attempt = DATA.attempts.get(finding.attempt_id);
        if (!filters.engine || (attempt && attempt.attempt.engine === filters.engine)) found.push({ seam, requirement, finding });
      }
    }
  }
  const rank = ({ requirement }) => ({ bad: 0, warn: 1 })[toneOf(requirement)];
  found.sort((one, other) => rank(one) - rank(other));
  const invalid = rows.flatMap(({ seam }) => seam.attempts.filter((attempt) => !attempt.valid).map((attempt) => ({ seam, attempt })));
  return el("section", { class: "findings", "aria-labelledby": "findings-title" },
    el("h2", { id: "findings-title" }, found.length ? `What was found: ${found.length}` : "What was found"),
    found.length || invalid.length ? null : el("p", { class: "empty" }, "Nothing, in what is shown."),
    invalid.length ? lazily(el("ul", { class: "cards" }), invalid, ({ seam, attempt }) => el("li", { class: "card quiet" },
      el("p", {}, el("a", { href: toAttempt(attempt.id) }, `${seam.name}, ${attemptName(attempt)}`), ` counts for nothing; to blame: ${attempt.blame}: ${attempt.reason}`))) : null,
    lazily(el("ul", { class: "cards" }), found, ({ seam, requirement, finding }) => findingCard(seam, requirement, finding), 20));
}

function findingCard(seam, requirement, finding) {
  const attempt = DATA.attempts.get(finding.attempt_id);
  const place = finding.call === null ? "open the attempt" : `open call ${finding.call}`;
  return el("li", { class: `card ${toneOf(requirement)}` },
    el("p", { class: "head" }, el("span", { class: "mark" }, MARKS[requirement.standing]), " ",
      el("a", { href: toSeam(seam, requirement.id) }, `${requirement.id} ${requirement.title}`), ` (${levelText(requirement)}) · `,
      el("a", { href: toSeam(seam) }, seam.name)),
    findingBody(finding),
    el("p", { class: "links" }, el("a", { href: toFinding(finding) }, place), attempt ? ` · ${attemptName(attempt.attempt)}` : ` · ${finding.attempt}`),
    command(finding.replay));
}

function findingBody(finding) {
  return el("dl", { class: "finding" },
    el("div", {}, el("dt", {}, "where"), el("dd", {}, finding.where)),
    el("div", {}, el("dt", {}, "expected"), el("dd", {}, el("code", {}, finding.expected))),
    el("div", {}, el("dt", {}, "seen"), el("dd", {}, el("code", {}, finding.seen))));
}

function levelText(requirement) {
  return requirement.draft ? `${requirement.level}, a draft that is not scored` : requirement.level;
}
