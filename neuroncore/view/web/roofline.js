// The roofline: achieved flops over flops per byte.

import { set, state } from "./state.js";
import { el, table } from "./text.js";

const WIDTH = 620, HEIGHT = 300, LEFT = 60, BOTTOM = 36, TOP = 12, RIGHT = 110;

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** The dots: the kernel by its HBM bytes, and each line with products by its operand bytes. */
function dots(core) {
  const { flops, hbm_bytes: bytes, tflops } = core.roofline;
  const found = flops && bytes ? [{ name: core.kernel, at: flops / bytes, tflops, line: -1 }] : [];
  core.lines.forEach((line, index) => {
    if (!line.flops) return;
    const rate = line.flops / line.product_ns / 1e3;
    found.push({ name: `line ${line.line}`, at: line.flops / line.operand_bytes, tflops: rate, line: index });
  });
  return found;
}

export function drawRoofline(pane, core) {
  const { peak_tflops: peaks, hbm_gigabytes_per_s: slope } = core.roofline, found = dots(core);
  const most = Math.max(...Object.values(peaks));
  const range = { x: [0.1, 10000], y: [most / 1e4, most * 2] };
  for (const dot of found) range.y[0] = Math.min(range.y[0], dot.tflops / 2);
  const scale = (value, [low, high], from, to) =>
    from + ((to - from) * Math.log(value / low)) / Math.log(high / low);
  const x = (value) => scale(value, range.x, LEFT, WIDTH - RIGHT);
  const y = (value) => scale(value, range.y, HEIGHT - BOTTOM, TOP);
  const line = (x1, y1, x2, y2, stroke, dash = "") =>
    svg("line", { x1, y1, x2, y2, stroke, "stroke-dasharray": dash, "stroke-width": 1.3 });
  const text = (at, over, content, anchor = "start") =>
    svg("text", { x: at, y: over, "text-anchor": anchor }, content);
  const parts = [];
  for (let ten = 0.1; ten <= 10000; ten *= 10) {
    parts.push(line(x(ten), TOP, x(ten), HEIGHT - BOTTOM, "var(--rule)"));
    parts.push(text(x(ten), HEIGHT - BOTTOM + 14, String(Number(ten.toPrecision(1))), "middle"));
  }
  for (let ten = 10 ** Math.ceil(Math.log10(range.y[0])); ten < range.y[1]; ten *= 10) {
    parts.push(line(LEFT, y(ten), WIDTH - RIGHT, y(ten), "var(--rule)"));
    parts.push(text(LEFT - 5, y(ten) + 4, String(Number(ten.toPrecision(1))), "end"));
  }
  const heights = Map.groupBy(Object.entries(peaks), ([, peak]) => peak);
  for (const [peak, formats] of heights) {
    const from = Math.max(range.x[0], (peak * 1e3) / slope);
    parts.push(line(x(from), y(peak), WIDTH - RIGHT, y(peak), "var(--ink)"));
    const names = formats.map(([name]) => name).filter((name) => name !== "tfloat32");
    parts.push(text(WIDTH - RIGHT + 4, y(peak) + 4, names.join(", ").slice(0, 21)));
  }
  const low = Math.max(range.x[0], (range.y[0] * 1e3) / slope);
  parts.push(line(x(low), y((low * slope) / 1e3), x((most * 1e3) / slope), y(most), "var(--ink)"));
  for (const [n, dot] of found.entries()) {
    const fill = dot.line < 0 ? "var(--critical)" : "var(--accent)";
    const circle = svg("circle", { cx: x(dot.at), cy: y(dot.tflops), r: dot.line < 0 ? 6 : 4, fill });
    if (dot.line === state.line && dot.line >= 0) circle.setAttribute("stroke", "var(--chosen)");
    circle.addEventListener("click", () => set({ line: dot.line }));
    parts.push(circle, text(x(dot.at) + 8, y(dot.tflops) + 4 + 12 * ((n % 3) - 1), dot.name));
  }
  parts.push(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "flops per byte", "middle"), text(4, TOP + 2, "TFLOPS"));
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT,
    role: "img", "aria-label": "roofline" }, ...parts);
  const roof = (dot) => (dot.line < 0 ? Math.min(most, (dot.at * slope) / 1e3).toPrecision(3) : "");
  const rows = found.map((dot) =>
    [dot.name, dot.tflops.toPrecision(3), dot.at.toPrecision(3), roof(dot)]);
  pane.replaceChildren(el("div", { class: "sides" }, picture, el("div", {},
    table(["", "TFLOPS", "flops per byte", "highest roof"], rows, [1, 2, 3]),
    el("p", { class: "faint" }, `The slope is the HBM bandwidth, ${slope} GB/s. The kernel's dot counts HBM bytes. `
      + "The dot of a line counts the on-chip bytes of its operands, and the time of its products."),
    found.length ? "" : el("p", {}, "This kernel has no matrix products."))));
}
