// The systolic array: the product of the step, cycle by cycle, with its values.

import { ink } from "./canvas.js";
import { written } from "./number.js";
import { set, state } from "./state.js";
import { Systolic } from "./systolic.js";
import { el, table } from "./text.js";
import { shade } from "./values.js";

const CELL = 3, EDGE = 26; // pixels of a cell, and around the array
let running = null;

/** The operands of a step's product, or the reason why it cannot be shown. */
export async function product(core) {
  const i = state.step, call = i < 0 ? null : core.callOf(i);
  if (!call?.array) return { reason: "This step is not a matrix product on the Tensor engine." };
  await core.tiles.ask(i);
  if (core.tiles.reason) return { reason: `No values: ${core.tiles.reason}.` };
  const operands = core.operands(i), { stationary, moving } = call.array;
  const named = (name) => core.tiles.of(operands.find((each) => each.name === name)?.operand);
  const tiles = { stationary: named(stationary), moving: moving && named(moving), dst: named("dst") };
  if (!tiles.stationary?.data || (moving && !tiles.moving?.data)) {
    return { reason: "Only thumbnails were stored for this step. Run `neuroncore view` with --values A:B to store its values." };
  }
  const read = async (tile) => (tile?.data ? (await core.tiles.all(tile)).numbers : null);
  const [weights, passing, sums] = [await read(tiles.stationary), await read(tiles.moving), await read(tiles.dst)];
  const count = moving ? tiles.moving.shape[1] / call.array.group : call.array.rows;
  const wide = [tiles.stationary, tiles.moving].some((tile) => tile?.format === "float32") && moving;
  const fourPasses = Boolean(wide && core.tiles.options.four_passes);
  return { array: call.array, cells: core.cells, tiles, sums, systolic: new Systolic(call.array, weights, passing, count, fourPasses) };
}

/** The next step, beginning with this one, whose product the page can show. */
function nextProduct(core) {
  const full = (i) => core.tiles.served || core.operands(i).filter((each) => each.role === "reads").every((each) => core.tiles.of(each.operand)?.data);
  for (let n = 1; n <= core.count; n++) {
    const i = (state.step + n) % core.count;
    if (core.callOf(i).array && full(i)) return i;
  }
  return -1;
}

export async function drawArray(pane, core) {
  if (state.step < 0 && !core.tiles.reason) {
    const first = nextProduct(core);
    if (first >= 0) return void set({ step: first, cycle: 0, cell: "0,0" });
  }
  const step = state.step, shown = await product(core);
  if (step !== state.step) return;
  if (shown.reason) {
    const next = core.tiles.reason ? -1 : nextProduct(core);
    pane.replaceChildren(el("p", { class: "faint" }, shown.reason), next < 0 ? ""
      : el("button", { onclick: () => set({ step: next, cycle: 0, cell: "0,0" }) }, `go to the product of step ${core.number(next)}`));
    return;
  }
  const { systolic } = shown, cycle = Math.min(state.cycle, systolic.cycles);
  if (pane.firstChild?.id !== `controls${step}`) pane.replaceChildren(controls(step, systolic), el("div", { class: "sides" }));
  const [, slider, output, sides] = pane.querySelectorAll("#play, #cycle, output, .sides");
  slider.value = cycle;
  output.textContent = `cycle ${cycle} of ${systolic.cycles}`;
  sides.replaceChildren(canvas(shown, cycle), el("div", {}, said(shown, cycle, core), el("p", { class: "faint" },
    "Pale: the stored weight. Bright: weight x input in this cycle. Inputs enter from the left, sums leave below. "
    + "Loading weights is this slow only if no other product hides it. The page adds the sums in the order of the array; "
    + "dst is from the run.")));
}

/** The controls of the cycle; they are kept while they are in use. */
function controls(step, systolic) {
  const by = (cycles) => set({ cycle: Math.min(Math.max(state.cycle + cycles, 0), systolic.cycles) });
  return el("div", { class: "controls", id: `controls${step}` },
    el("button", { id: "play", onclick: () => play(systolic) }, "play / stop"),
    el("button", { onclick: () => by(-1) }, "\u2212 1"),
    el("button", { onclick: () => by(1) }, "+ 1"),
    el("input", { id: "cycle", type: "range", min: 0, max: systolic.cycles, "aria-label": "cycle",
      oninput: (event) => set({ cycle: Number(event.target.value) }) }),
    el("output"));
}

/** Start or stop the animation. */
function play(systolic) {
  clearInterval(running);
  running = running ? null : setInterval(() => {
    if (state.cycle < systolic.cycles && state.pane === "array") set({ cycle: state.cycle + 1 });
    else play(systolic);
  }, 60);
}

function canvas({ systolic, array, cells }, cycle) {
  const width = cells.columns * CELL + 2 * EDGE, height = cells.rows * CELL + 2 * EDGE;
  const made = el("canvas", { id: "array", width, height, role: "img", "aria-label": "the array of the Tensor engine" });
  made.style.width = `${width}px`;
  const context = made.getContext("2d"), [top, left] = array.at, most = [systolic.weights, systolic.moving ?? [1]]
    .map((values) => values.reduce((a, b) => Math.max(a, Math.abs(b) || 0), 0) || 1);
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
      box(row, column, now
        ? shade(systolic.weight(row, column) * systolic.passing(row, now.moving), most[0] * most[1] / 4)
        : faded(shade(systolic.weight(row, column), most[0])));
    }
    const entering = systolic.at(cycle, row, -1);
    if (entering) box(row, -2, shade(systolic.passing(row, entering.moving), most[1]));
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
  return made;
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
  const phase = cycle < systolic.loading ? `loading weights, one row per cycle: ${cycle} of ${systolic.rows}` : "streaming columns";
  const now = systolic.at(cycle, row, column), done = systolic.at(cycle, systolic.rows, column);
  const rows = [
    ["array", `${systolic.rows} rows of K by ${systolic.columns} columns of M${systolic.group > 1 ? ", two weights in each cell" : ""}: `
      + `${((100 * systolic.rows * systolic.columns) / (cells.rows * cells.columns)).toFixed(0)} % of it`],
    ["moving", `${systolic.count} columns${systolic.passes.length > 1 ? ", four times: float32 goes in halves of 12 bits" : ""}`
      + (array.moving ? "" : ", of the identity matrix")],
    ["estimate", `keeps the engine for ${array.cycles} cycles`],
    ["now", phase],
    ["cell", `[${row}, ${column}] has the weight ${written(systolic.weight(row, column), float32)}`],
  ];
  if (now) {
    const pass = systolic.passes[now.pass][0], above = row ? systolic.sum(row - 1, column, now.moving, now.pass) : 0;
    rows.push(["input", `element [${row}, ${now.moving}] = ${written(systolic.passing(row, now.moving), float32)} ${pass}`],
      ["from above", written(above, float32)],
      ["passes down", written(systolic.sum(row, column, now.moving, now.pass), float32)]);
  }
  if (done) rows.push(...below(systolic, tiles, sums, column, done, float32, core));
  return table([], rows);
}

/** The sum that leaves the array below the selected cell, and the run's result there. */
function below(systolic, tiles, sums, column, { moving, pass }, float32, core) {
  const rows = [["leaves below", `column ${moving}: ${written(systolic.sum(systolic.rows - 1, column, moving, pass), float32)}`]];
  if (pass < systolic.passes.length - 1 || !sums) return rows;
  const there = sums[column * tiles.dst.shape[1] + moving], made = systolic.result(column, moving);
  const why = there === made ? "the same" : tiles.dst.format === "float32" ? "with the previous contents" : `rounded to ${tiles.dst.format}`;
  const order = core.tiles.options.chain ? why : "added in a different order";
  return [...rows, ["dst after", `[${column}, ${moving}] = ${written(there, float32)}, ${order}`]];
}
