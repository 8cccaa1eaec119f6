// Drawing over a shared time axis.

import { file, recorded } from "./svg.js";
import { $, el, moment } from "./text.js";
import { set, state } from "./state.js";

const LABELS = 150; // pixels for the names of rows, on the left,
const FEW = 104; // and on a narrow screen
const NARROW = 500; // pixels of a narrow screen
const SHORTEST = 14; // pixels of a text; it is left out where there is less room

/** Return the size of letters as a multiple of the usual size. */
export function type() {
  return document.documentElement.dataset.type === "large" ? 1.45 : 1;
}

/** A canvas with the resolution of the screen, and its time axis. */
export class Board {
  constructor(parent, height, label) {
    this.canvas = el("canvas", { role: "img", "aria-label": label });
    parent.append(this.canvas);
    this.height = height;
    this.context = this.canvas.getContext("2d");
    new ResizeObserver(() => this.width !== this.canvas.clientWidth && this.draw?.()).observe(parent);
  }

  /** Clear the canvas; return false if it is not visible. */
  begin(height = this.height) {
    this.width = this.canvas.clientWidth;
    this.height = height;
    if (!this.width) return false;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = this.width * scale;
    this.canvas.height = height * scale;
    this.canvas.style.height = `${height}px`;
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.context.font = `${11 * type()}px system-ui, sans-serif`;
    this.drawn = 0;
    this.labels = []; // the boxes of texts: x, y, width, height
    this.left = (this.width < NARROW ? FEW : LABELS) * type();
    [this.from, this.to] = this.span();
    this.perNs = (this.width - this.left) / Math.max(this.to - this.from, 1e-9);
    return true;
  }

  /** Return the picture as the text of an SVG file, with `more` added at the end. */
  svg(more = "") {
    const { context } = this;
    const content = recorded(context, (recorder) => {
      this.context = recorder;
      this.draw();
      this.context = context;
    });
    this.draw();
    return file(this.width, this.height, content + more);
  }

  /** Return the interval of time that the board shows. */
  span() {
    return [state.from, state.to];
  }

  x(ns) {
    return this.left + (ns - this.from) * this.perNs;
  }

  ns(x) {
    return this.from + (x - this.left) / this.perNs;
  }

  rect(x, y, width, height, fill) {
    this.context.fillStyle = fill;
    this.context.fillRect(x, y, width, height);
    this.drawn++;
  }

  /** Write a text, shortened to `most` pixels. */
  text(text, x, y, fill, most = Infinity) {
    const shown = this.fitting(text, most);
    if (!shown) return;
    this.context.fillStyle = fill;
    this.context.fillText(shown, x, y);
    this.labels.push([x, y - 9 * type(), this.context.measureText(shown).width, 11 * type(), shown]);
  }

  fitting(text, most) {
    const fits = (shown) => this.context.measureText(shown).width <= most;
    if (fits(text)) return text;
    const short = text.replace(/ ?\(.*\)/, "");
    if (most < SHORTEST || fits(short)) return most < SHORTEST ? "" : short;
    let length = Math.floor((short.length * most) / this.context.measureText(short).width);
    while (length > 1 && !fits(`${short.slice(0, length)}\u2026`)) length--;
    return length > 1 ? `${short.slice(0, length)}\u2026` : "";
  }

  /** Call `draw`, but clip its drawing so that it does not cover the names of rows. */
  clipped(draw) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(this.left, 0, this.width - this.left, this.height);
    this.context.clip();
    draw();
    this.context.restore();
  }

  /** Draw the time axis along the top. */
  axis() {
    const span = this.to - this.from, steps = Math.max(2, (this.width - this.left) / (110 * type()));
    const unit = 10 ** Math.floor(Math.log10(span / steps));
    const step = [1, 2, 5, 10].map((n) => n * unit).find((n) => span / n <= steps);
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
      this.rect(this.x(at), 0, 1, this.height, ink("rule"));
      const said = moment(at, step), x = this.x(at) + 3;
      if (x + this.context.measureText(said).width <= this.width) this.text(said, x, 11 * type(), ink("faint"));
    }
  }
}

let inks = {};

/** Return a color of the page, by its name in page.css. */
export function ink(name) {
  return (inks[name] ??= getComputedStyle(document.documentElement).getPropertyValue(`--${name}`));
}

export function forgetInks() {
  inks = {};
}

export const PALETTE = 7;

/** Return one of the seven colors of the palette. */
export function color(number) {
  return ink(`p${number % PALETTE}`);
}

/** Return black or white: the one that is easier to read on a color. */
export function inkOn(fill) {
  const [red, green, blue] = [1, 3, 5].map((at) => (parseInt(fill.trim().slice(at, at + 2), 16) / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000" : "#fff";
}

/** Show an interval of time, limited to the part of the run on the page. */
export function show(core, from, to) {
  const total = core.to - core.from, span = Math.min(Math.max(to - from, total * 1e-7, 1), total);
  const start = Math.min(Math.max(core.from, from), core.to - span);
  set({ from: start, to: start + span });
}

/** Let a view draw its board. The wheel, drags and shift-drags zoom and move the board. The view's `clicked` gets
 * the positions of clicks, and its `hover` the movements of the pointer. */
export function navigable(view) {
  const board = view.board;
  board.draw = () => view.draw();
  let down = null;
  const at = (event) => [event.offsetX, event.offsetY];
  board.canvas.addEventListener("wheel", (event) => {
    if (event.offsetX < board.left) return;
    event.preventDefault();
    const by = Math.exp(Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 100) / 300);
    zoom(view.core, by, board.ns(event.offsetX));
  }, { passive: false });
  board.canvas.addEventListener("pointerdown", (event) => {
    down = { x: at(event)[0], y: at(event)[1], from: state.from, to: state.to, moved: false };
    board.canvas.setPointerCapture(event.pointerId);
  });
  board.canvas.addEventListener("pointermove", (event) => {
    if (!down) return;
    const by = event.offsetX - down.x;
    down.moved ||= Math.abs(by) > 3;
    if (!down.moved) return;
    if (event.shiftKey) {
      board.draw();
      board.context.strokeStyle = ink("accent");
      board.context.strokeRect(down.x, 0, by, board.height);
    } else {
      show(view.core, down.from - by / board.perNs, down.to - by / board.perNs);
    }
  });
  board.canvas.addEventListener("pointerup", (event) => {
    const from = down;
    down = null;
    if (!from) return;
    if (!from.moved) view.clicked(...at(event));
    else if (event.shiftKey) {
      const [low, high] = [from.x, event.offsetX].sort((a, b) => a - b);
      show(view.core, board.ns(low), board.ns(high));
    }
  });
  board.canvas.addEventListener("pointermove", (event) => view.hover(event));
  board.canvas.addEventListener("pointerleave", () => ($("card").hidden = true));
}

/** Show `by` times as much time, and keep the moment `around` at its position. */
export function zoom(core, by, around = (state.from + state.to) / 2) {
  show(core, around - (around - state.from) * by, around + (state.to - around) * by);
}
