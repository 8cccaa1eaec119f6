// The summary: suggestions, the lines that cost most, and the places where the result is wrong.

import { inflate } from "./inflate.js";
import { set } from "./state.js";
import { duration, el, percent } from "./text.js";

const LINES = 5, LETTERS = 32; // lines, and letters of each
const NONE = [238, 240, 243], LEAST = [255, 214, 165], MOST = [168, 32, 26], ODD = [204, 121, 167];

export async function drawSummary(pane, core) {
  const maps = core.outcome?.maps ?? [];
  pane.replaceChildren(el("div", { class: "look" }, ...maps.map(errorMap), suggestions(core), hotLines(core)));
}

/** Return the index of the line with which a text such as "kernel.py:12 at no cost" begins; -1 for none. */
function lineIn(core, text) {
  const found = /^(\S+):(\d+)\b/.exec(text);
  return !found ? -1 : core.lines.findIndex((line) =>
    line.line === Number(found[2]) && core.files[line.file].name.split(/[\\/]/).at(-1) === found[1]);
}

function suggestions(core) {
  const rows = (core.suggestions ?? []).map((one) => {
    const line = lineIn(core, one.change), then = one.bound ? `, then bound by ${one.bound}` : "";
    const said = [one.change, el("span", { class: "faint" }, ` \u2192 ${duration(one.ns)}${then}`)];
    return [el("b", { class: "critical" }, `\u2212${percent(one.gain)}`),
      line < 0 ? el("span", {}, ...said) : el("button", { class: "link", onclick: () => set({ line }) }, ...said)];
  });
  return rows.length ? el("div", { id: "suggestions" }, el("h3", {}, "Suggestions"),
    el("div", { class: "gains" }, ...rows.flat())) : null;
}

/** Return the lines with the largest shares of the critical path. */
export function hottest(core) {
  return core.lines.map((line, index) => ({ index, line, share: line.critical_ns / (core.total_ns || 1) }))
    .filter(({ share }) => share > 0).sort((a, b) => b.share - a.share);
}

function hotLines(core) {
  const several = new Set(core.lines.map((line) => line.file)).size > 1;
  const rows = hottest(core).slice(0, LINES).flatMap(({ index, line, share }) => {
    const { name, text } = core.files[line.file], bar = el("i");
    bar.style.width = `${100 * share}%`;
    return [el("span", { class: "share" }, bar, percent(share)),
      el("button", { class: "link", onclick: () => set({ line: index }) }, several ? `${name.split(/[\\/]/).at(-1)}:${line.line}` : `line ${line.line}`),
      el("code", {}, shortened((text ?? "").split("\n")[line.line - 1]?.trim() ?? ""))];
  });
  return rows.length ? el("div", { id: "hot" }, el("h3", {}, "Lines on the critical path"), el("div", { class: "hot" }, ...rows)) : null;
}

function shortened(text) {
  return text.length > LETTERS ? `${text.slice(0, LETTERS)}\u2026` : text;
}

/** Return a picture of the differences, with a pixel for each block of elements. */
function errorMap({ result, shape, largest, levels: [rows, columns], data }) {
  const canvas = el("canvas", { width: columns, height: rows, role: "img", "aria-label": `differences of result ${result}` });
  inflate(data).then((bytes) => paint(canvas, new Uint8Array(bytes)));
  return el("div", { class: "errors" }, el("h3", {}, `Where result ${result} differs`), canvas,
    el("div", { class: "faint" }, `${shape[0]} rows (down) by ${shape[1]} columns. Dark: differences up to ${Number(largest.toPrecision(3))}; `
      + "gray: equal; pink: NaN or infinite"));
}

function paint(canvas, levels) {
  const context = canvas.getContext("2d"), image = context.createImageData(canvas.width, canvas.height);
  levels.forEach((level, n) => {
    const share = (level - 1) / 253;
    const color = level === 0 ? NONE : level === 255 ? ODD : LEAST.map((from, k) => from + (MOST[k] - from) * share);
    image.data.set([...color, 255], 4 * n);
  });
  context.putImageData(image, 0, 0);
}
