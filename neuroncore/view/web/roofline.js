// The roofline: achieved flops per second over flops per byte.

import { set, state } from "./state.js";
import { el, percent, table } from "./text.js";

const WIDTH = 760, HEIGHT = 320, LEFT = 60, BOTTOM = 36, TOP = 14, RIGHT = 150, APART = 13;

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Return the dots: the kernel, and each line while its products run. All are at the kernel's flops per
 * byte of HBM. */
function dots(core) {
  const { flops, hbm_bytes: bytes, tflops, format } = core.roofline;
  if (!flops || !bytes) return [];
  const at = flops / bytes;
  const lines = core.lines.flatMap((line, index) => (line.flops
    ? [{ name: `line ${line.line}`, at, tflops: line.flops / line.product_ns / 1e3, line: index, format: line.format }] : []));
  return [{ name: core.kernel, at, tflops, line: -1, format }, ...lines];
}

/** Return vertical positions of labels: close to their dots, but without overlap. */
function spread(wanted) {
  const order = wanted.map((_, n) => n).sort((a, b) => wanted[a] - wanted[b]), found = [...wanted];
  order.forEach((n, k) => k && (found[n] = Math.max(found[n], found[order[k - 1]] + APART)));
  const over = found[order.at(-1)] - (HEIGHT - BOTTOM - 4);
  return over > 0 ? found.map((at) => at - over) : found;
}

export function drawRoofline(pane, core) {
  const found = dots(core), { peak_tflops: peaks, hbm_gigabytes_per_s: slope } = core.roofline;
  if (!found.length) return pane.replaceChildren(el("p", {}, "This kernel has no matrix products."));
  const formats = [...new Set(found.map((dot) => dot.format))].filter((name) => peaks[name]);
  const most = Math.max(...formats.map((name) => peaks[name]));
  const range = { x: [0.1, 10000], y: [Math.min(most / 1e3, ...found.map((dot) => dot.tflops / 2)), most * 2] };
  const scale = (value, [low, high], from, to) => from + ((to - from) * Math.log(value / low)) / Math.log(high / low);
  const x = (value) => scale(value, range.x, LEFT, WIDTH - RIGHT), y = (value) => scale(value, range.y, HEIGHT - BOTTOM, TOP);
  const line = (x1, y1, x2, y2, stroke, dash = "") => svg("line", { x1, y1, x2, y2, stroke, "stroke-dasharray": dash, "stroke-width": 1.3 });
  const text = (at, over, content, anchor = "start") => svg("text", { x: at, y: over, "text-anchor": anchor }, content);
  const parts = [];
  for (let ten = 0.1; ten <= 10000; ten *= 10) {
    parts.push(line(x(ten), TOP, x(ten), HEIGHT - BOTTOM, "var(--rule)"), text(x(ten), HEIGHT - BOTTOM + 14, String(Number(ten.toPrecision(1))), "middle"));
  }
  for (let ten = 10 ** Math.ceil(Math.log10(range.y[0])); ten < range.y[1]; ten *= 10) {
    parts.push(line(LEFT, y(ten), WIDTH - RIGHT, y(ten), "var(--rule)"), text(LEFT - 5, y(ten) + 4, String(Number(ten.toPrecision(1))), "end"));
  }
  const heights = [...Map.groupBy(formats, (name) => peaks[name])];
  for (const [peak] of heights) parts.push(line(x((peak * 1e3) / slope), y(peak), WIDTH - RIGHT, y(peak), "var(--ink)"));
  const low = Math.max(range.x[0], (range.y[0] * 1e3) / slope);
  parts.push(line(x(low), y((low * slope) / 1e3), x((most * 1e3) / slope), y(most), "var(--ink)"));
  const labels = [...heights.map(([peak, names]) => [y(peak), `peak, ${names.join(", ")}`, null]), ...found.map((dot) => [y(dot.tflops), dot.name, dot])];
  const places = spread(labels.map(([at]) => at));
  labels.forEach(([at, name, dot], n) => {
    parts.push(text(WIDTH - RIGHT + 14, places[n] + 4, name));
    if (!dot) return;
    parts.push(line(x(dot.at), at, WIDTH - RIGHT + 10, places[n], "var(--faint)", "2 3"));
    const circle = svg("circle", { cx: x(dot.at), cy: at, r: dot.line < 0 ? 6 : 4, fill: dot.line < 0 ? "var(--critical)" : "var(--accent)" });
    if (dot.line === state.line && dot.line >= 0) circle.setAttribute("stroke", "var(--chosen)");
    circle.addEventListener("click", () => set({ line: dot.line }));
    parts.push(circle);
  });
  parts.push(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, "flops per byte of HBM", "middle"), text(4, TOP - 3, "TFLOPS"));
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, role: "img", "aria-label": "roofline" }, ...parts);
  const roof = (dot) => Math.min(peaks[dot.format] ?? most, dot.line < 0 ? (dot.at * slope) / 1e3 : Infinity);
  const rows = found.map((dot) => [dot.name, dot.format ?? "", dot.tflops.toPrecision(3), roof(dot).toPrecision(3), percent(dot.tflops / roof(dot))]);
  return pane.replaceChildren(el("div", {}, picture, table(["", "format", "TFLOPS", "roof", "share"], rows, [2, 3, 4]),
    el("p", { class: "faint" }, `Orange: the kernel, over its whole time; its roof is the peak of its format, or its flops per byte times the HBM bandwidth of ${slope} GB/s if this is less. `
      + "Blue: a line while its products run; its roof is the peak of its format.")));
}
