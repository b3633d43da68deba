"use strict";
// What every part builds on: elements, texts that show what cannot be seen, lists that grow while one scrolls.

const SVG = "http://www.w3.org/2000/svg";
// Controls but tab and newline, marks that turn the direction of text or have no width, and halves of surrogate pairs.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

function escaped(character) {
  return "\\u" + character.charCodeAt(0).toString(16).padStart(4, "0");
}

/** The text with escapes for what cannot be seen. */
function visible(text) {
  return String(text).replace(UNSEEN, escaped);
}

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : visible(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
  return element;
}

/** An element. What is not a node becomes text, never markup. */
function el(name, attributes, ...children) {
  return build(document.createElement(name), attributes, children);
}

/** Appends what is there of the children. */
function put(parent, ...children) {
  return build(parent, {}, children);
}

function svg(name, attributes, ...children) {
  return build(document.createElementNS(SVG, name), attributes, children);
}

/** Appends what `render` makes of the items, some at once and more when the end comes into sight. */
function lazily(parent, items, render, some = 60) {
  const end = el(parent.tagName === "TBODY" ? "tr" : parent.tagName === "UL" || parent.tagName === "OL" ? "li" : "div", { class: "end", "aria-hidden": "true" });
  let next = 0;
  function more() {
    const fragment = document.createDocumentFragment();
    for (const last = Math.min(next + some, items.length); next < last; next++) fragment.append(render(items[next], next));
    // Watched anew each time: of an end that is in sight before and after, the browser says nothing.
    observer.disconnect();
    end.remove();
    parent.append(fragment);
    if (next < items.length) {
      parent.append(end);
      observer.observe(end);
    }
  }
  const observer = new IntersectionObserver((seen) => seen.some((entry) => entry.isIntersecting) && more(), { rootMargin: "800px" });
  more();
  return parent;
}

function table(heads, rows, render, attributes) {
  const body = el("tbody");
  lazily(body, rows, render);
  const cells = heads.map((head) => el("th", { scope: "col" }, head));
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": (attributes || {}).label || "table" }, el("table", { class: "plain" }, el("thead", {}, el("tr", {}, cells)), body));
}

/** A number, or that there is none: absent is not 0. */
function known(value, unit = "") {
  return value === null || value === undefined ? el("span", { class: "none" }, "none") : `${typeof value === "number" ? value.toLocaleString("en") : value}${unit}`;
}

function say(sentence) {
  document.getElementById("live").textContent = sentence;
}

/** A command with a button that copies it. */
function command(text) {
  const button = el("button", { type: "button", class: "copy", click: () => copy(text, button) }, "Copy");
  return el("div", { class: "command" }, el("code", {}, text), button);
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    say("The command is copied.");
    button.textContent = "Copied";
  } catch {
    const range = document.createRange();
    range.selectNodeContents(button.parentElement.querySelector("code"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    say("The command is selected; copy it.");
    button.textContent = "Selected";
  }
}

function facts(entries) {
  const pairs = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", { class: "facts" }, pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}
