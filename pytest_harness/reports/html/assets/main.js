// Shows what the address asks for, and listens to keys.

const THEMES = ["auto", "light", "dark"];

async function show() {
  const main = document.getElementById("main");
  const { parts, query } = here();
  const view = el("div");
  let target = null;
  try {
    target = await fill(view, parts, query);
  } catch (error) {
    view.replaceChildren(el("h1", {}, "This cannot be shown"), el("p", {}, `${error.name}: ${error.message}`), el("p", {}, el("a", { href: "#/" }, "To the matrix")));
  }
  main.replaceChildren(...view.childNodes);
  const heading = target || main.querySelector("h1");
  document.title = `${main.querySelector("h1").textContent} · Harness conformance`;
  if (!show.first) {
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  }
  if (target) target.scrollIntoView();
  else if (!show.first) scrollTo(0, 0);
  show.first = false;
  document.body.dataset.ready = location.hash || "#/";
}
show.first = true;

async function fill(view, [kind, ...rest], query) {
  if (kind === undefined) return showMatrix(view, query);
  if (kind === "seam") {
    const seam = DATA.seams[Number(rest[0])];
    if (!seam) throw new RangeError(`the report has no seam ${rest[0]}`);
    if (rest[1] === undefined) {
      showSeam(view, seam);
      return query.get("family") ? view.querySelector(`#family-${CSS.escape(query.get("family"))}`) : null;
    }
    const requirement = seam.byId.get(rest[1]);
    if (!requirement) throw new RangeError(`${seam.name} was not judged by ${rest[1]}`);
    return showRequirement(view, seam, requirement);
  }
  const found = kind === "attempt" && DATA.attempts.get(rest[0]);
  if (!found) throw new RangeError("the address names nothing of this report");
  return rest[1] === "call" ? showCall(view, found, rest[2], query) : showAttempt(view, found);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById("help").open) return;
  const typing = event.target.matches("input, select, textarea");
  if (typing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const follow = (selector) => { const link = document.querySelector(selector); if (link) location.hash = link.hash; };
  const actions = {
    "/": () => { const search = document.getElementById("search"); if (search) search.focus(); else location.hash = toMatrix(); },
    "?": () => document.getElementById("help").showModal(),
    v: () => { const other = document.querySelector(".views button[aria-pressed='false']"); if (other) other.click(); },
    n: () => follow("a[rel='next']"),
    p: () => follow("a[rel='prev']"),
    u: () => follow(".crumbs li:nth-last-child(2) a"),
    c: () => { const button = document.querySelector(".command .copy"); if (button) button.click(); },
    t: nextTheme,
  };
  if (!(event.key in actions)) return;
  event.preventDefault();
  actions[event.key]();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.getElementById("theme-button").textContent = `Theme: ${theme}`;
  try {
    localStorage.setItem("harness-conformance-theme", theme);
  } catch {
    // A browser may refuse storage to files; the choice then lasts as long as the page.
  }
}

function nextTheme() {
  setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]);
}

function keptTheme() {
  try {
    return THEMES.find((theme) => theme === localStorage.getItem("harness-conformance-theme")) || "auto";
  } catch {
    return "auto";
  }
}

async function begin() {
  setTheme(keptTheme());
  document.getElementById("theme-button").addEventListener("click", nextTheme);
  document.getElementById("help-button").addEventListener("click", () => document.getElementById("help").showModal());
  document.addEventListener("keydown", onKey);
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); document.getElementById("main").focus(); });
  try {
    await load();
  } catch (error) {
    document.getElementById("main").prepend(el("p", { class: "banner" }, `The data of this page cannot be unpacked (${error.message}); a newer browser can.`));
    return;
  }
  addEventListener("hashchange", show);
  await show();
}

begin();
