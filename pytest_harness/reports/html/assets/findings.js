// What was found, one card each: what was expected and seen, where, and the command that shows it again.

const SHOWN = 3; // of one requirement of one seam; its own page has all

function findingsSection(rows, filters) {
  const found = [];
  let count = 0;
  for (const { seam, requirements } of rows) {
    for (const requirement of requirements) {
      if (!isBroken(requirement) && requirement.standing !== "deviation") continue;
      const own = requirement.findings.filter((finding) => !filters.engine || engineOf(finding) === filters.engine);
      count += own.length;
      own.slice(0, SHOWN).forEach((finding, index) => found.push({ seam, requirement, finding, more: index === SHOWN - 1 ? own.length - SHOWN : 0 }));
    }
  }
  const rank = ({ requirement }) => ({ bad: 0, warn: 1 })[toneOf(requirement)];
  found.sort((one, other) => rank(one) - rank(other));
  const invalid = rows.flatMap(({ seam }) => seam.attempts.filter((attempt) => !attempt.valid).map((attempt) => ({ seam, attempt })));
  return el("section", { class: "findings", "aria-labelledby": "findings-title" },
    el("h2", { id: "findings-title" }, found.length ? `What was found: ${count}` : "What was found"),
    found.length || invalid.length ? null : el("p", { class: "empty" }, "Nothing, in what is shown."),
    invalid.length ? lazily(el("ul", { class: "cards" }), invalid, ({ seam, attempt }) => el("li", { class: "card quiet" },
      el("p", {}, el("a", { href: toAttempt(attempt.id) }, `${seam.name}, ${attemptName(attempt)}`), ` counts for nothing; to blame: ${attempt.blame}: ${attempt.reason}`))) : null,
    lazily(el("ul", { class: "cards" }), found, ({ seam, requirement, finding, more }) => findingCard(seam, requirement, finding, more), 20));
}

function engineOf(finding) {
  const found = DATA.attempts.get(finding.attempt_id);
  return found ? found.attempt.engine : null;
}

function findingCard(seam, requirement, finding, more = 0) {
  const attempt = DATA.attempts.get(finding.attempt_id);
  const place = finding.call === null ? "open the attempt" : `open call ${finding.call}`;
  return el("li", { class: `card ${toneOf(requirement)}` },
    el("p", { class: "head" }, el("span", { class: "mark" }, MARKS[requirement.standing]), " ",
      el("a", { href: toSeam(seam, requirement.id) }, `${requirement.id} ${requirement.title}`), ` (${levelText(requirement)}) · `,
      el("a", { href: toSeam(seam) }, seam.name)),
    findingBody(finding),
    el("p", { class: "links" }, el("a", { href: toFinding(finding) }, place), attempt ? ` · ${attemptName(attempt.attempt)}` : ` · ${finding.attempt}`),
    command(finding.replay),
    more ? el("p", { class: "links" }, el("a", { href: toSeam(seam, requirement.id) }, `and ${more} more`)) : null);
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
