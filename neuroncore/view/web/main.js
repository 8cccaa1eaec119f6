// Reads the document, and redraws the parts that a change affects.

import { forgetInks, show, zoom } from "./canvas.js";
import { Core } from "./model.js";
import { Memory } from "./memory.js";
import { decoder } from "./number.js";
import { drawFigures, drawFindings, drawHead, drawOutcome, drawPrecision, drawWhatIf } from "./report.js";
import { arrayPicture, arrayFrames, drawArray, product } from "./array.js";
import { drawRoofline } from "./roofline.js";
import { matching, WORDS } from "./search.js";
import { Source } from "./source.js";
import { file, save } from "./svg.js";
import { startBorders } from "./splitter.js";
import { asked, listen, set, state } from "./state.js";
import { atPosition, drawStep, drawWalk, stepped } from "./step.js";
import { drawSummary } from "./summary.js";
import { Timeline } from "./timeline.js";
import { Together } from "./together.js";
import { $, el, moment, table } from "./text.js";
import { Tiles } from "./tiles.js";
import { drawValues } from "./values.js";

const KEYS = [
  ["← →", "step back, step forward"], ["Home  End", "go to the first step, to the last step"],
  ["c", "go to the instruction that this step waited for"], ["w", "go to an instruction that waits for this step"],
  ["o", "switch between program order and time order"], ["+  -", "zoom in, zoom out"], ["[  ]", "move left, move right"],
  ["0", "show the whole run"], ["z", "zoom to the step"], ["/", "search; Enter goes to the next match"],
  ["Esc", "deselect the line and clear the search"], ["1 to 9", "open a pane"], ["t", "switch between light and dark"],
  ["l", "switch between usual and large type"], ["\u2191 \u2193 in the source", "select the previous, the next line with instructions"],
  ["arrows in a picture of values or of the array", "select an element"], ["wheel, drag, shift-drag", "zoom, move, zoom into a box"],
];

const panes = {};
let cores = [], opened = [], core = null, timeline = null, source = null, memory = null, together = null, drawn = null;

const DRAWN = {
  summary: ["Summary", (pane) => drawSummary(pane, core)],
  together: ["Side by side", () => drawTogether()],
  step: ["Step", (pane) => drawStep(pane, core)],
  values: ["Values", (pane) => drawValues(pane, core)],
  array: ["Array", (pane) => drawArray(pane, core)],
  memory: ["Memory", () => memory.draw()],
  roofline: ["Roofline", (pane) => drawRoofline(pane, core)],
  whatif: ["What if", (pane) => drawWhatIf(pane, core)],
  precision: ["Precision", (pane) => drawPrecision(pane, core)],
  findings: ["Findings", (pane) => drawFindings(pane, core)],
  figures: ["Figures", (pane) => drawFigures(pane, core)],
};

// Panes that exist only if the document has their data.
const estimated = (each) => !each.capture; // a capture has no values and no findings
const ASKED_FOR = {
  together: (each, n, all) => all.length > 1,
  whatif: (each) => each.what_if?.length > 0, precision: (each) => each.precision,
  values: estimated, array: estimated, roofline: estimated, findings: estimated,
};

/** Draw several cores under each other. The first call reads all cores. */
async function drawTogether() {
  await (together.ready ??= together.open(cores, made, opened));
  return together.draw();
}

async function open(number) {
  const given = cores[number] ?? cores[0];
  core = opened[number] ??= await Core.read(given);
  core.tiles ??= await Tiles.read(core, cores.indexOf(given));
  for (const part of [timeline, source, memory]) part.open(core, made.error);
  return core;
}

function draw(changed) {
  if (changed.has("core") && cores[state.core] && core !== opened[state.core]) return void (drawn = choose(state.core));
  if (changed.has("theme") || changed.has("type")) theme();
  document.body.dataset.shown = state.pane;
  if (changed.has("pane")) $("card").hidden = true;
  const { from, to } = state;
  if (!(to > from)) Object.assign(state, { from: core.from, to: core.to });
  timeline.draw();
  drawWalk(core);
  if (["core", "step", "line", "theme", "type"].some((key) => changed.has(key))) source.draw();
  if (changed.has("query")) drawMatches();
  for (const [name, button] of [...$("tabs").children].map((b) => [b.dataset.pane, b])) {
    button.setAttribute("aria-selected", name === state.pane);
    panes[name].classList.toggle("on", name === state.pane);
  }
  drawn = DRAWN[state.pane][1](panes[state.pane]);
  for (const name of ["order", "color", "dma", "core"]) $(name).value = state[name];
  $("query").value = state.query;
}

function drawMatches() {
  const { unknown } = matching(core, state.query);
  const counted = () => (state.query ? `${matches().length} found` : "");
  $("matches").textContent = unknown.length ? `no such word: ${unknown.join(" ")}; ${WORDS}` : counted();
}

function matches() {
  return core.byTime.filter(matching(core, state.query).fits);
}

function nextMatch() {
  const found = matches(), at = state.step < 0 ? -1 : core.placeInTime[state.step];
  const next = found.find((i) => core.placeInTime[i] > at) ?? found[0];
  if (next !== undefined) go(next);
}

/** Select an instruction, and scroll it into view. */
function go(step) {
  if (step === undefined || step < 0) return;
  const span = state.to - state.from, at = core.begin[step];
  set({ step });
  if (at < state.from || at > state.to) show(core, at - span / 2, at + span / 2);
}

/** Return the pictures of the current pane as pairs (name, text of an SVG file). */
async function paneFiles() {
  const { pane } = state, drawing = panes[pane].querySelector("svg");
  if (pane === "memory") return memory.maps.map((map) => [map.memory, map.board.svg()]);
  if (pane === "together") return [["side_by_side", together.board.svg()]];
  if (pane === "array") return [["array", await arrayPicture(core)]].filter(([, text]) => text);
  if (drawing) return [[pane, drawing.outerHTML.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"')]];
  const own = panes[pane], { width, height } = own.getBoundingClientRect(); // a pane of text
  const text = new XMLSerializer().serializeToString(own);
  const style = `font: 13px system-ui, sans-serif; color: ${getComputedStyle(own).color}`;
  return [[pane, file(Math.ceil(width), Math.ceil(height),
    `<foreignObject width="100%" height="100%"><div xmlns="http://www.w3.org/1999/xhtml" style="${style}">${text}</div></foreignObject>`)]];
}

async function saved(what) {
  const files = {
    timeline: async () => [["timeline", timeline.board.svg()]], animation: async () => [["timeline_animated", timeline.animation()]],
    array: async () => [["array_animated", await arrayFrames(core)]].filter(([, text]) => text), pane: paneFiles,
  };
  for (const [name, text] of await files[what]()) save(`${core.kernel}_${name}.svg`, text);
}

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  Object.assign(document.documentElement.dataset, { theme: state.theme || dark, type: state.type });
  forgetInks();
}

/** Switch between usual and large letters. */
function enlarged() {
  set({ type: state.type ? "" : "large" });
}

/** Switch between light and dark. */
function turned() {
  set({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" });
}

function keyed(event) {
  if (event.target.matches("input[type=search], select") || event.ctrlKey || event.metaKey || event.altKey) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const span = state.to - state.from, names = [...$("tabs").children].map((button) => button.dataset.pane);
  const actions = {
    ArrowRight: () => go(stepped(core, 1)), ArrowLeft: () => go(stepped(core, -1)),
    Home: () => go(stepped(core, -core.count)), End: () => go(stepped(core, core.count)),
    c: () => go(core.cause[state.step]), w: () => go(core.waiters(state.step)[0]),
    o: () => set({ order: state.order === "time" ? "program" : "time" }),
    "+": () => zoom(core, 0.7), "=": () => zoom(core, 0.7), "-": () => zoom(core, 1 / 0.7),
    "[": () => show(core, state.from - span / 4, state.to - span / 4),
    "]": () => show(core, state.from + span / 4, state.to + span / 4),
    0: () => show(core, core.from, core.to),
    z: () => state.step >= 0 && show(core, core.begin[state.step] - 500, core.end[state.step] + 500),
    "/": () => $("query").focus(), Escape: () => set({ line: -1, query: "" }),
    t: turned, l: enlarged,
    "?": () => $("keys").showModal(),
  };
  const pane = names[Number(event.key) - 1];
  const action = actions[event.key] ?? (pane && (() => set({ pane })));
  if (!action) return;
  event.preventDefault();
  action();
}

function listenToControls() {
  const on = (id, kind, act) => $(id).addEventListener(kind, act);
  on("back", "click", () => go(stepped(core, -1)));
  on("forward", "click", () => go(stepped(core, 1)));
  on("first", "click", () => go(stepped(core, -core.count)));
  on("last", "click", () => go(stepped(core, core.count)));
  on("position", "input", () => go(atPosition(core)));
  on("fit", "click", () => show(core, core.from, core.to));
  on("query", "input", () => set({ query: $("query").value }));
  on("query", "keydown", (event) => event.key === "Enter" && nextMatch());
  on("order", "change", () => set({ order: $("order").value }));
  on("color", "change", () => set({ color: $("color").value }));
  on("dma", "change", () => set({ dma: $("dma").value }));
  on("core", "change", () => (drawn = choose(Number($("core").value))));
  on("save", "change", () => {
    const what = $("save").value;
    $("save").value = "";
    if (what) drawn = saved(what);
  });
  on("theme", "click", turned);
  on("large", "click", enlarged);
  startBorders();
  on("help", "click", () => $("keys").showModal());
  addEventListener("keydown", keyed);
  addEventListener("afterprint", () => document.body.classList.remove("printing"));
  addEventListener("beforeprint", () => {
    document.body.classList.add("printing");
    for (const name of Object.keys(panes)) DRAWN[name][1](panes[name]);
  });
  if (made.opens.watched) {
    addEventListener("visibilitychange", () => document.visibilityState === "visible" && location.reload());
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(new Set(["theme"])));
}

async function choose(number) {
  await open(number);
  set({ core: number, step: -1, line: -1, from: core.from, to: core.to });
  drawHead(core, cores, made);
  $("core").value = number;
}

function makePanes() {
  for (const [name, [title]] of Object.entries(DRAWN)) {
    if (name in ASKED_FOR && !cores.every(ASKED_FOR[name])) continue;
    panes[name] = el("section", { class: "pane", "data-pane": name, "aria-label": title });
    $("panes").append(panes[name]);
    $("tabs").append(el("button", { role: "tab", "data-pane": name, onclick: () => set({ pane: name }) }, title));
  }
  $("keys").replaceChildren(table(["", ""], KEYS), el("form", { method: "dialog" }, el("button", {}, "close")));
}

/** Show the page of a run that failed and has no timeline: the source with the error. */
function startBare() {
  document.body.classList.add("bare");
  const nothing = { files: made.files, lines: [] }, shown = new Source();
  shown.open(nothing, made.error);
  $("verdict").textContent = `${document.title}: no timeline, because the error came before the first instruction, or the run has several cores`;
  drawOutcome(made.error);
  listen(theme);
  $("theme").addEventListener("click", turned);
  $("large").addEventListener("click", enlarged);
  theme();
  shown.draw();
  return 0;
}

/** Return the index of the first line with instructions at or after a line number of the kernel's file; -1 for none. */
function lineAt(number) {
  const file = made.opens.file ?? core.lines[0]?.file;
  return number === null ? -1 : core.lines.findIndex((line) => line.file === file && line.line >= number);
}

const made = JSON.parse($("document").textContent);

/** Build the page. Tests wait for the result of this function, because the page is then complete. */
async function start() {
  if (!made.cores.length) return startBare();
  cores = made.cores.map((each) => ({ ...each, files: made.files }));
  makePanes();
  timeline = new Timeline();
  source = new Source();
  memory = new Memory(panes.memory);
  if (panes.together) together = new Together(panes.together);
  const wanted = { ...asked(made.opens.at), ...asked(location.hash.slice(1)) };
  const failed = cores.findIndex((each) => each.outcome?.kind === "failed"), first = failed < 0 ? made.first : failed;
  drawHead(cores[wanted.core] ?? cores[first], cores, made); // before the columns are decoded
  await open(wanted.core ?? first);
  Object.assign(state, { core: first, from: core.from, to: core.to, line: lineAt(made.opens.line), ...(made.sides && { pane: "together" }) }, wanted);
  if (!panes[state.pane]) state.pane = "summary";
  if (!(state.step < core.count)) state.step = -1;
  listen(draw);
  listenToControls();
  draw(new Set(["core", "theme", "type", "query"]));
  window.view = { decoder, moment, product, state, set, made, core: () => core, timeline, memory, together, drawn: () => drawn };
  await drawn;
  return core.count;
}

window.ready = start();
