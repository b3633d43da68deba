// The data of the page: the report as in report.json, and each attempt, unpacked when it is asked for.

const DATA = { report: null, families: {}, seams: [], attempts: new Map() };
const BROKEN = new Set(["failed", "unstable", "error"]);
const MARKS = { passed: "✓", failed: "✗", unstable: "≈", error: "!", deviation: "d", unverifiable: "u", not_exercised: "–" };

async function unpack(element) {
  const bytes = Uint8Array.from(atob(element.textContent), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

async function load() {
  const { report, families } = await unpack(document.getElementById("report-data"));
  DATA.report = report;
  DATA.families = families;
  DATA.seams = report.seams.map((seam, number) => {
    const requirements = new Map(seam.requirements.map((requirement) => [requirement.id, requirement]));
    return { ...seam, number, byId: requirements, engines: [...new Set(seam.attempts.map((attempt) => attempt.engine))] };
  });
  for (const seam of DATA.seams) for (const attempt of seam.attempts) DATA.attempts.set(attempt.id, { attempt, seam });
  for (const seam of DATA.seams) for (const requirement of seam.requirements) requirement.haystack = haystack(requirement);
}

function haystack(requirement) {
  const findings = requirement.findings.map((finding) => `${finding.attempt} ${finding.where} ${finding.expected} ${finding.seen}`);
  return [requirement.id, requirement.title, requirement.statement, requirement.why, ...requirement.reasons, ...findings].join("\n").toLowerCase();
}

const UNPACKED = new Map();

/** What the page holds of an attempt: `{data}`, or `{absent}` with the reason. */
async function attemptData(id) {
  if (UNPACKED.has(id)) return UNPACKED.get(id);
  const element = [...document.querySelectorAll("script[data-attempt]")].find((each) => each.dataset.attempt === id);
  if (!element) return { absent: "The page does not hold this attempt." };
  if (element.dataset.absent) return { absent: element.dataset.absent };
  const held = { data: await unpack(element) };
  if (UNPACKED.size >= 4) UNPACKED.delete(UNPACKED.keys().next().value);
  UNPACKED.set(id, held);
  return held;
}

function isBinding(requirement) {
  return requirement.level === "MUST" && !requirement.draft;
}

function isBroken(requirement) {
  return BROKEN.has(requirement.standing);
}

function standingText(requirement) {
  const looked = Object.keys(requirement.results).length > 0;
  if (requirement.standing === "not_exercised" && requirement.occasional && looked) return "did not come up";
  return requirement.standing.replace("_", " ");
}

/** The class of a standing: what speaks against the seam is told from what does not. */
function toneOf(requirement) {
  if (isBroken(requirement)) return isBinding(requirement) || requirement.standing === "error" ? "bad" : "warn";
  return { passed: "ok", deviation: "warn" }[requirement.standing] || "quiet";
}

/** One family of one seam, over the requirements that are given; drafts are not counted. */
function countOf(requirements) {
  const counted = requirements.filter((requirement) => !requirement.draft);
  const of = (...standings) => counted.filter((requirement) => standings.includes(requirement.standing)).length;
  const passed = of("passed"), broken = of(...BROKEN), deviations = of("deviation");
  const exercised = passed + broken + deviations;
  const text = exercised ? `${passed}/${exercised}${deviations ? ` ${deviations}d` : ""}` : "-";
  return { text, tone: !exercised ? "quiet" : broken ? (counted.some((each) => isBroken(each) && isBinding(each)) ? "bad" : "warn") : deviations ? "warn" : "ok" };
}

function resultIn(attempt, id) {
  return Object.keys(attempt.results).find((result) => attempt.results[result].includes(id)) || null;
}

function attemptName(attempt) {
  return `${attempt.scenario} on ${attempt.engine}, attempt ${attempt.attempt}`;
}
