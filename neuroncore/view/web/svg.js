// Pictures as SVG files, also animated. A recorder replaces the context of a canvas.

import { el } from "./text.js";

const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const short = (number) => String(Number(Number(number).toFixed(2)));

/** A recorder: it has the methods of a 2D context that the page uses, and writes SVG. */
class Recorder {
  constructor(context) {
    Object.assign(this, { context, parts: [], path: "", saved: [], clips: 0, open: 0, globalAlpha: 1, lineWidth: 1 });
    this.font = context.font;
  }

  measureText(text) {
    this.context.font = this.font;
    return this.context.measureText(text);
  }

  get alpha() {
    return this.globalAlpha < 1 ? ` opacity="${this.globalAlpha}"` : "";
  }

  fillRect(x, y, width, height) {
    this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(Math.max(0, width))}" height="${short(Math.max(0, height))}" fill="${escaped(this.fillStyle).trim()}"${this.alpha}/>`);
  }

  strokeRect(x, y, width, height) {
    this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(Math.abs(width))}" height="${short(height)}" fill="none" stroke="${escaped(this.strokeStyle).trim()}" stroke-width="${this.lineWidth}"/>`);
  }

  fillText(text, x, y) {
    const size = /(\d+(?:\.\d+)?)px/.exec(this.font)?.[1] ?? 11, anchor = this.textAlign === "center" ? ' text-anchor="middle"' : "";
    this.parts.push(`<text x="${short(x)}" y="${short(y)}" font-size="${size}"${anchor} fill="${escaped(this.fillStyle).trim()}">${escaped(text)}</text>`);
  }

  beginPath() {
    this.path = "";
  }

  moveTo(x, y) {
    this.path += `M${short(x)} ${short(y)}`;
  }

  lineTo(x, y) {
    this.path += `${this.path ? "L" : "M"}${short(x)} ${short(y)}`;
  }

  rect(x, y, width, height) {
    this.path += `M${short(x)} ${short(y)}h${short(width)}v${short(height)}h${short(-width)}z`;
  }

  stroke() {
    this.parts.push(`<path d="${this.path}" fill="none" stroke="${escaped(this.strokeStyle).trim()}" stroke-width="${this.lineWidth}"${this.alpha}/>`);
  }

  save() {
    this.saved.push([this.open, this.fillStyle, this.strokeStyle, this.lineWidth]);
  }

  clip() {
    const id = `clip${++this.clips}`;
    this.parts.push(`<clipPath id="${id}"><path d="${this.path}"/></clipPath><g clip-path="url(#${id})">`);
    this.open++;
  }

  restore() {
    const [open, ...kept] = this.saved.pop();
    for (; this.open > open; this.open--) this.parts.push("</g>");
    [this.fillStyle, this.strokeStyle, this.lineWidth] = kept;
  }

  setTransform() {}
}

/** Return a drawing as the text of an SVG file. The function `draw` gets the recorder, and draws on it. */
export function recorded(context, draw) {
  const recorder = new Recorder(context);
  draw(recorder);
  return recorder.parts.join("\n");
}

export function file(width, height, content) {
  const paper = getComputedStyle(document.documentElement).getPropertyValue("--paper").trim();
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" `
    + `font-family="system-ui, sans-serif">\n<rect width="${width}" height="${height}" fill="${paper}"/>\n${content}\n</svg>\n`;
}

/** Return frames as an animation that shows them one after the other, and repeats forever. */
export function animated(frames, perSecond) {
  const seconds = frames.length / perSecond, count = frames.length;
  return frames.map((frame, n) => {
    const [from, to] = [n / count, (n + 1) / count].map((time) => time.toFixed(5));
    const times = n === 0 ? `0;${to}` : `0;${from}${n + 1 < count ? `;${to}` : ""}`;
    const values = n === 0 ? "inline;none" : `none;inline${n + 1 < count ? ";none" : ""}`;
    return `<g display="${n ? "none" : "inline"}"><animate attributeName="display" calcMode="discrete" `
      + `dur="${seconds}s" repeatCount="indefinite" keyTimes="${times}" values="${values}"/>\n${frame}</g>`;
  }).join("\n");
}

/** Let the browser save a text. */
export function save(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
