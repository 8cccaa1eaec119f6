// The contents of an operand: a heat map, statistics, a histogram, the bits of one element.

import { ink } from "./canvas.js";
import { groups, written } from "./number.js";
import { set, state } from "./state.js";
import { tensor } from "./step.js";
import { byArrows, el, plural, table } from "./text.js";

const WIDE = 560, HIGH = 300; // maximum pixels of a heat map
const LOST = [150, 150, 150], ODD = [204, 121, 167]; // uninitialized, and not finite
const LEAST = [0, 114, 178], NOTHING = [245, 245, 240], MOST = [213, 94, 0];

/** Return the color of a number on a scale from -most (blue) over 0 (white) to most (orange). */
function tint(value, most) {
  const share = Math.max(-1, Math.min(1, most ? value / most : 0)), end = share < 0 ? LEAST : MOST;
  return NOTHING.map((from, n) => Math.round(from + (end[n] - from) * Math.sqrt(Math.abs(share))));
}

export async function drawValues(pane, core) {
  const { step } = state;
  await core.tiles.ask(step);
  if (step !== state.step) return undefined;
  if (core.tiles.reason) return pane.replaceChildren(el("p", { class: "faint" }, `No values: ${core.tiles.reason}.`));
  if (state.step < 0) return pane.replaceChildren(el("p", { class: "faint" }, "Select an instruction."));
  const operands = core.operands(state.step), at = Math.min(state.operand, operands.length - 1);
  const chooser = el("div", {}, ...operands.map((each, n) => el("button", {
    "aria-pressed": n === at, class: n === at ? "on" : "", onclick: () => set({ operand: n, element: "" }),
  }, `${each.name} (${each.role === "writes" ? "after" : "before"})`)));
  const operand = operands[at], tile = operand && core.tiles.of(operand.operand);
  if (!tile) {
    pane.replaceChildren(chooser, el("p", { class: "faint" }, "The page has no values for this operand."));
    return undefined;
  }
  const whole = tile.data ? await core.tiles.all(tile) : null;
  const small = whole || tile.low === null ? null : await core.tiles.small(tile);
  if (step !== state.step) return undefined;
  pane.replaceChildren(chooser, el("div", { class: "sides" },
    picture(tile, whole, small), el("div", {}, figures(core, operand, tile), histogram(tile), element(core, tile, whole))));
  return undefined;
}

/** Return a heat map with one or more pixels per element, or the thumbnail. */
function picture(tile, whole, small) {
  const [rows, columns] = whole ? tile.shape : small ? [small.rows, small.columns] : [1, 1];
  const most = Math.max(Math.abs(tile.low ?? 0), Math.abs(tile.high ?? 0));
  const colorOf = (n) => {
    if (!whole && !small) return tile.unwritten ? LOST : ODD;
    if (whole) return whole.lost?.[n] ? LOST : Number.isFinite(whole.numbers[n]) ? tint(whole.numbers[n], most) : ODD;
    const level = small.levels[n], share = (level - 1) / 253;
    return level === 0 ? LOST : level === 255 ? ODD : tint(tile.low + share * (tile.high - tile.low), most);
  };
  const canvas = el("canvas", { id: "heat", width: columns, height: rows, role: "img",
    "aria-label": `values of ${plural(rows, "partition")} by ${plural(columns, "element")}` });
  const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
  for (let n = 0; n < rows * columns; n++) image.data.set([...colorOf(n), 255], 4 * n);
  context.putImageData(image, 0, 0);
  const scale = Math.min(WIDE / columns, HIGH / rows), wide = Math.max(columns * scale, 24), high = Math.max(rows * scale, 12);
  Object.assign(canvas.style, { width: `${wide}px`, height: `${high}px`, imageRendering: "pixelated" });
  if (whole) {
    const choose = (cell) => set({ element: cell.join(",") });
    canvas.addEventListener("click", (event) => choose(
      [Math.floor((event.offsetY / high) * rows), Math.floor((event.offsetX / wide) * columns)]));
    byArrows(canvas, tile.shape, state.element ? state.element.split(",").map(Number) : [0, -1], choose);
  }
  const [partitions, elements] = tile.shape;
  return el("figure", {}, canvas, el("figcaption", { class: "faint" },
    `${plural(partitions, "partition")} (down), ${plural(elements, "element")} each (across)`
    + (whole ? "; select an element with a click or with the arrow keys" : "; these are averages, because the page has only a thumbnail")));
}

function figures(core, operand, tile) {
  const format = core.tiles.format(tile), said = (value) => (value === null ? "" : written(value, format));
  const rows = [["tensor", tensor(core, operand.area)], ["format", tile.format], ["minimum", said(tile.low)],
    ["maximum", said(tile.high)], ["mean", tile.mean === undefined ? "" : written(tile.mean, format)],
    ["NaN", String(tile.nan)], ["infinite", String(tile.infinite)], ["uninitialized", String(tile.unwritten)]];
  return table([], rows);
}

function histogram(tile) {
  if (!tile.bins) return "";
  const most = Math.max(...tile.bins), box = el("div", { class: "bins", role: "img", "aria-label": "histogram" });
  for (const count of tile.bins) {
    const bar = el("i", { title: String(count) });
    bar.style.height = `${count ? Math.max(1, (60 * count) / most) : 0}px`;
    box.append(bar);
  }
  return el("div", {}, box, el("div", { class: "faint" }, `${tile.low.toPrecision(3)} to ${tile.high.toPrecision(3)}`));
}

function element(core, tile, whole) {
  const [row, column] = state.element.split(",").map(Number), format = core.tiles.format(tile);
  if (!whole || !state.element || row >= tile.shape[0] || column >= tile.shape[1]) return "";
  const n = row * tile.shape[1] + column, code = whole.codes[n];
  const value = whole.lost?.[n] ? "uninitialized" : written(whole.numbers[n], format);
  const parts = groups(code, format).map(([name, bits]) => el("span", { class: name, title: name }, bits));
  return el("div", { id: "element" }, `[${row}, ${column}] = ${value}`, el("br"),
    el("span", { class: "code bits" }, ...parts), ` 0x${code.toString(16).padStart(2 * format.bytes, "0")}`);
}

/** Return the color of a number as CSS, for other modules that draw numbers. */
export function shade(value, most) {
  return Number.isFinite(value) ? `rgb(${tint(value, most).join(" ")})` : ink("p3");
}
