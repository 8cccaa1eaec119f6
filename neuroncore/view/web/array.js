// The systolic array: the product of the step, cycle by cycle, with its values.

import { ink } from "./canvas.js";
import { written } from "./number.js";
import { set, state } from "./state.js";
import { animated, file, recorded } from "./svg.js";
import { Systolic } from "./systolic.js";
import { byArrows, el, plural, table } from "./text.js";
import { shade } from "./values.js";

const CELL = 3, EDGE = 26; // pixels of a cell, and around the array
const SPEEDS = [1, 2, 5, 10, 30, 60]; // cycles per second
const SIDE = 16, LARGE = 34, LEFT = 56; // large corner: cells per side, pixels per cell, pixels to the left
const FRAMES = 64; // most cycles of streaming in an animated file
let running = null;

/** Return the product of the selected step, with its values if the page has them. If the step is not a
 * product, return the reason why there is none. */
export async function product(core) {
  const i = state.step, call = i < 0 ? null : core.callOf(i);
  if (!call?.array) return { reason: "This step is not a matrix product on the Tensor engine." };
  await core.tiles.ask(i);
  const operands = core.operands(i), { stationary, moving, count } = call.array;
  const named = (name) => core.tiles.of(operands.find((each) => each.name === name)?.operand);
  const tiles = { stationary: named(stationary), moving: moving && named(moving), dst: named("dst") };
  const known = tiles.stationary?.data && (!moving || tiles.moving?.data);
  const read = async (tile) => (known && tile?.data ? (await core.tiles.all(tile)).numbers : null);
  const [weights, passing, sums] = [await read(tiles.stationary), await read(tiles.moving), await read(tiles.dst)];
  const fourPasses = known ? call.array.float32 && Boolean(core.tiles.options.four_passes) : call.array.float32;
  const systolic = new Systolic(call.array, weights, passing, count, fourPasses);
  return { array: call.array, cells: core.cells, tiles, sums, systolic };
}

/** Return the first step after the selected one that is a product; -1 if there is none. */
function nextProduct(core) {
  for (let n = 1; n <= core.count; n++) {
    const i = (Math.max(state.step, -1) + n) % core.count;
    if (core.callOf(i).array) return i;
  }
  return -1;
}

/** Return the cycle to show: the selected cycle, or the first one in which a column enters the array. */
function cycleOf(systolic) {
  return state.cycle < 0 ? systolic.loading : Math.min(state.cycle, systolic.cycles);
}

export async function drawArray(pane, core) {
  if (state.step < 0) {
    const first = nextProduct(core);
    if (first >= 0) return void set({ step: first, cycle: -1, cell: "0,0" });
  }
  const step = state.step, shown = await product(core);
  if (step !== state.step) return;
  if (shown.reason) {
    const next = nextProduct(core);
    pane.replaceChildren(el("p", { class: "faint" }, shown.reason), next < 0 ? ""
      : el("button", { onclick: () => set({ step: next, cycle: -1, cell: "0,0" }) }, `go to the product of step ${core.number(next)}`));
    return;
  }
  const { systolic } = shown, cycle = cycleOf(systolic);
  if (pane.firstChild?.id !== `controls${step}`) pane.replaceChildren(controls(step, systolic), el("div", { class: "sides" }));
  const [, slider, output, sides] = pane.querySelectorAll("#play, #cycle, output, .sides");
  slider.value = cycle;
  output.textContent = `cycle ${cycle} of ${systolic.cycles}`;
  const picture = state.corner ? corner(shown, cycle) : canvas(shown, cycle);
  sides.replaceChildren(picture, el("div", {}, said(shown, cycle, core), el("p", { class: "faint" },
    "Pale: the stored weight. Bright: weight x input in this cycle. Inputs enter from the left. Sums leave at the bottom, into a PSUM bank. "
    + "Loading weights takes this long only if it does not overlap with another product. "
    + (systolic.weights ? "The page computes the sums in the order of the array; dst has the values of the run."
      : "The page has no values for this step: run `neuroncore view` with --values A:B to store them."))));
}

/** Return the controls of the cycle. They are not made again while they are in use. */
function controls(step, systolic) {
  const by = (cycles) => set({ cycle: Math.min(Math.max(cycleOf(systolic) + cycles, 0), systolic.cycles) });
  const speeds = el("select", { id: "speed", "aria-label": "cycles per second", onchange: (event) => {
    set({ speed: Number(event.target.value) });
    if (running) play(systolic), play(systolic);
  } }, ...SPEEDS.map((speed) => el("option", { value: speed, selected: speed === state.speed }, `${speed} ${speed === 1 ? "cycle" : "cycles"} per second`)));
  return el("div", { class: "controls", id: `controls${step}` },
    el("button", { id: "play", onclick: () => play(systolic) }, "play / stop"), speeds,
    el("button", { onclick: () => by(-1) }, "\u2212 1"),
    el("button", { onclick: () => by(1) }, "+ 1"),
    el("input", { id: "cycle", type: "range", min: 0, max: systolic.cycles, "aria-label": "cycle",
      oninput: (event) => set({ cycle: Number(event.target.value) }) }),
    el("output"),
    el("button", { id: "corner", onclick: () => set({ corner: state.corner ? "" : "large" }) }, "16 x 16 / whole"));
}

/** Start or stop the animation. */
function play(systolic) {
  clearInterval(running);
  running = running ? null : setInterval(() => {
    const cycle = cycleOf(systolic);
    if (cycle < systolic.cycles && state.pane === "array") set({ cycle: cycle + 1 });
    else play(systolic);
  }, 1000 / state.speed);
}

function canvas({ systolic, array, cells }, cycle) {
  const width = cells.columns * CELL + 2 * EDGE, height = cells.rows * CELL + 2 * EDGE;
  const made = el("canvas", { id: "array", width, height, role: "img", "aria-label": "the array of the Tensor engine" });
  made.style.width = `${width}px`;
  const context = made.getContext("2d"), [top, left] = array.at, most = largest(systolic);
  const box = (row, column, fill) => {
    context.fillStyle = fill;
    context.fillRect(EDGE + (left + column) * CELL, EDGE + (top + row) * CELL, CELL, CELL);
  };
  context.fillStyle = ink("panel");
  context.fillRect(EDGE, EDGE, cells.columns * CELL, cells.rows * CELL);
  const loaded = Math.min(cycle, systolic.loading);
  for (let row = 0; row < systolic.rows; row++) {
    for (let column = 0; column < systolic.columns; column++) {
      if (row >= loaded) continue;
      const now = systolic.at(cycle, row, column);
      if (!systolic.weights) {
        box(row, column, ink(now ? "p1" : "rule"));
        continue;
      }
      box(row, column, now
        ? shade(systolic.weight(row, column) * systolic.passing(row, now.moving), most[0] * most[1] / 4)
        : faded(shade(systolic.weight(row, column), most[0])));
    }
    const entering = systolic.at(cycle, row, -1);
    if (entering) box(row, -2, !systolic.weights ? ink("p4") : shade(systolic.passing(row, entering.moving), most[1]));
  }
  for (let column = 0; column < systolic.columns; column++) {
    if (systolic.at(cycle, systolic.rows, column)) box(systolic.rows + 1, column, ink("critical"));
  }
  const [row, column] = chosen(systolic);
  context.strokeStyle = ink("chosen");
  context.strokeRect(EDGE + (left + column) * CELL - 1, EDGE + (top + row) * CELL - 1, CELL + 2, CELL + 2);
  made.addEventListener("click", (event) => {
    const place = [event.offsetY, event.offsetX].map((at) => Math.floor((at - EDGE) / CELL));
    const [r, c] = [place[0] - top, place[1] - left];
    if (r >= 0 && c >= 0 && r < systolic.rows && c < systolic.columns) set({ cell: `${r},${c}` });
  });
  return withArrows(made, systolic);
}

/** Return the largest magnitudes of the weights and of the inputs. */
function largest(systolic) {
  return [systolic.weights ?? [1], systolic.moving ?? [1]]
    .map((values) => values.reduce((a, b) => Math.max(a, Math.abs(b) || 0), 0) || 1);
}

/** Return a number as a text of at most six characters, which fits into a cell. */
function few(value) {
  const text = Number.isFinite(value) ? String(Number(value.toPrecision(2))) : String(value);
  return text.length <= 5 ? text : value.toExponential(0);
}

/** Draw the first 16 rows and columns with their numbers. The inputs are at the left. At the bottom are
 * the sums that leave the array for the PSUM bank in this cycle. */
function paintCorner(context, { systolic }, cycle) {
  const [rows, columns] = [systolic.rows, systolic.columns].map((n) => Math.min(n, SIDE)), most = largest(systolic);
  const box = (row, column, fill, text) => {
    const [x, y] = [LEFT + column * LARGE, 20 + row * LARGE];
    context.fillStyle = fill;
    context.fillRect(x + 1, y + 1, LARGE - 2, LARGE - 2);
    if (!text) return;
    context.fillStyle = "#000";
    context.textAlign = "center";
    context.font = "10px system-ui, sans-serif";
    context.fillText(text, x + LARGE / 2, y + LARGE / 2 + 4);
  };
  const label = (text, x, y) => {
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "left";
    context.fillStyle = ink("ink");
    context.fillText(text, x, y);
  };
  label(`cycle ${cycle}: ${phaseOf(systolic, cycle)}`, 4, 14);
  for (let row = 0; row < rows; row++) {
    const entering = systolic.at(cycle, row, 0);
    if (entering) {
      box(row, -1, ink("p4"), systolic.weights ? few(systolic.passing(row, entering.moving)) : `[${row},${entering.moving}]`);
      label("\u2192", 6, 20 + row * LARGE + LARGE / 2 + 4);
    }
    for (let column = 0; column < columns; column++) {
      if (row >= cycle && cycle < systolic.loading) continue;
      const now = systolic.at(cycle, row, column), value = systolic.weights ? few(systolic.weight(row, column)) : "w";
      box(row, column, now ? ink("p1") : "#e4e7eb", value);
    }
  }
  for (let column = 0; column < columns; column++) {
    const done = systolic.at(cycle, systolic.rows, column);
    if (done) label("\u2193", LEFT + column * LARGE + LARGE / 2 - 4, 20 + rows * LARGE + 12);
    box(rows + 0.5, column, done ? ink("p2") : "#e4e7eb", done
      ? (systolic.weights ? few(systolic.sum(systolic.rows - 1, column, done.moving, done.pass)) : `[${column},${done.moving}]`) : "");
  }
  label("PSUM", 4, 20 + (rows + 1) * LARGE + 4);
  if (rows < systolic.rows) label(`rows ${rows} to ${systolic.rows - 1} are not drawn`, LEFT, 20 + (rows + 1.5) * LARGE + 14);
}

function sizeOfCorner({ systolic }) {
  const [rows, columns] = [systolic.rows, systolic.columns].map((n) => Math.min(n, SIDE));
  return [LEFT + Math.max(columns, 8) * LARGE + 8, 20 + (rows + 2) * LARGE];
}

function corner(shown, cycle) {
  const [width, height] = sizeOfCorner(shown), scale = window.devicePixelRatio || 1;
  const made = el("canvas", { id: "array", width: width * scale, height: height * scale, role: "img",
    "aria-label": "the first 16 rows and columns of the array" });
  Object.assign(made.style, { width: `${width}px`, height: `${height}px` });
  const context = made.getContext("2d");
  context.scale(scale, scale);
  paintCorner(context, shown, cycle);
  const [row, column] = chosen(shown.systolic);
  context.strokeStyle = ink("chosen");
  context.lineWidth = 2;
  if (Math.max(row, column) < SIDE) context.strokeRect(LEFT + column * LARGE, 20 + row * LARGE, LARGE, LARGE);
  return withArrows(made, shown.systolic);
}

function withArrows(made, systolic) {
  byArrows(made, [systolic.rows, systolic.columns], chosen(systolic), (cell) => set({ cell: cell.join(",") }));
  return made;
}

/** Return the large corner in this cycle as SVG; nothing if the step is not a product. */
export async function arrayPicture(core) {
  const shown = await product(core);
  if (shown.reason) return "";
  const context = el("canvas").getContext("2d");
  return file(...sizeOfCorner(shown), recorded(context, (recorder) => paintCorner(recorder, shown, cycleOf(shown.systolic))));
}

/** Return the large corner as an animated SVG: first weights are loaded, and then columns stream. */
export async function arrayFrames(core) {
  const shown = await product(core);
  if (shown.reason) return "";
  const context = el("canvas").getContext("2d"), { loading, streaming } = shown.systolic;
  const loads = Array.from({ length: Math.min(SIDE, loading) }, (_, cycle) => cycle);
  const streams = Array.from({ length: Math.min(FRAMES, streaming + 1) }, (_, n) => loading + n);
  const frames = [...loads, ...streams].map((cycle) => recorded(context, (recorder) => paintCorner(recorder, shown, cycle)));
  return file(...sizeOfCorner(shown), animated(frames, state.speed));
}

function phaseOf(systolic, cycle) {
  if (cycle < systolic.loading) return `loading weights, one row per cycle: ${cycle} of ${systolic.rows}`;
  const now = systolic.at(cycle, 0, 0), pass = now && systolic.passes[now.pass][0];
  return pass ? `streaming columns, pass ${now.pass + 1} of ${systolic.passes.length}: ${pass}` : "streaming columns";
}

function faded(color) {
  return color.replace(")", " / 0.35)");
}

function chosen(systolic) {
  const [row, column] = (state.cell || "0,0").split(",").map(Number);
  return [Math.min(row, systolic.rows - 1), Math.min(column, systolic.columns - 1)];
}

function said(shown, cycle, core) {
  const { systolic, array, cells, tiles, sums } = shown, [row, column] = chosen(systolic), float32 = { bytes: 4 };
  const now = systolic.at(cycle, row, column), done = systolic.at(cycle, systolic.rows, column);
  const rows = [
    ["array", `${plural(systolic.rows, "row")} of K by ${plural(systolic.columns, "column")} of M${systolic.group > 1 ? ", two weights in each cell" : ""}: `
      + `${((100 * systolic.rows * systolic.columns) / (cells.rows * cells.columns)).toFixed(0)}% of the cells`],
    ["moving", `${plural(systolic.count, "column")}${systolic.passes.length > 1 ? ", in four passes that multiply halves of the float32 operands" : ""}`
      + (array.moving ? "" : ", of the identity matrix")],
    ["estimate", `occupies the engine for ${array.cycles} cycles`],
    ["now", phaseOf(systolic, cycle)],
  ];
  if (!systolic.weights) return table([], rows);
  rows.push(["cell", `[${row}, ${column}] has the weight ${written(systolic.weight(row, column), float32)}`]);
  if (now) {
    const pass = systolic.passes[now.pass][0], above = row ? systolic.sum(row - 1, column, now.moving, now.pass) : 0;
    rows.push(["input", `element [${row}, ${now.moving}] = ${written(systolic.passing(row, now.moving), float32)} ${pass}`],
      ["from above", written(above, float32)],
      ["passes down", written(systolic.sum(row, column, now.moving, now.pass), float32)]);
  }
  if (done) rows.push(...below(systolic, tiles, sums, column, done, float32, core));
  return table([], rows);
}

/** Return table rows with the sum that leaves the column of the selected cell, and with the run's result. */
function below(systolic, tiles, sums, column, { moving, pass }, float32, core) {
  const rows = [["leaves below", `column ${moving}: ${written(systolic.sum(systolic.rows - 1, column, moving, pass), float32)}`]];
  if (pass < systolic.passes.length - 1 || !sums) return rows;
  const there = sums[column * tiles.dst.shape[1] + moving], made = systolic.result(column, moving);
  const why = there === made ? "the same" : tiles.dst.format === "float32" ? "with the previous contents" : `rounded to ${tiles.dst.format}`;
  const order = core.tiles.options.chain ? why : "added in a different order";
  return [...rows, ["dst after", `[${column}, ${moving}] = ${written(there, float32)}, ${order}`]];
}
