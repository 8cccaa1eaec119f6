// Drawing over a shared time axis.

import { el, moment } from "./text.js";
import { set, state } from "./state.js";

export const LABELS = 150; // pixels for the names of rows, on the left

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
    this.context.font = "11px system-ui, sans-serif";
    this.drawn = 0;
    this.perNs = (this.width - LABELS) / Math.max(state.to - state.from, 1e-9);
    return true;
  }

  x(ns) {
    return LABELS + (ns - state.from) * this.perNs;
  }

  ns(x) {
    return state.from + (x - LABELS) / this.perNs;
  }

  rect(x, y, width, height, fill) {
    this.context.fillStyle = fill;
    this.context.fillRect(x, y, width, height);
    this.drawn++;
  }

  text(text, x, y, fill, most) {
    this.context.fillStyle = fill;
    this.context.fillText(text, x, y, most);
  }

  /** Draw without painting over the names of rows. */
  clipped(draw) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(LABELS, 0, this.width - LABELS, this.height);
    this.context.clip();
    draw();
    this.context.restore();
  }

  /** Ticks of time along the top. */
  axis() {
    const span = state.to - state.from, steps = Math.max(2, (this.width - LABELS) / 110);
    const unit = 10 ** Math.floor(Math.log10(span / steps));
    const step = [1, 2, 5, 10].map((n) => n * unit).find((n) => span / n <= steps);
    for (let at = Math.ceil(state.from / step) * step; at <= state.to; at += step) {
      this.rect(this.x(at), 0, 1, this.height, ink("rule"));
      this.text(moment(at, step), this.x(at) + 3, 11, ink("faint"));
    }
  }
}

let inks = {};

/** A color of the page by its name in page.css. */
export function ink(name) {
  return (inks[name] ??= getComputedStyle(document.documentElement).getPropertyValue(`--${name}`));
}

export function forgetInks() {
  inks = {};
}

export const PALETTE = 7;

/** One of the seven colors. */
export function color(number) {
  return ink(`p${number % PALETTE}`);
}

/** Show an interval of time, limited to the part of the run on the page. */
export function show(core, from, to) {
  const total = core.to - core.from, span = Math.min(Math.max(to - from, total * 1e-7, 1), total);
  const start = Math.min(Math.max(core.from, from), core.to - span);
  set({ from: start, to: start + span });
}

/** Wheel, drag and shift-drag on a board; `clicked` gets clicks that are not drags. */
export function navigable(board, core, clicked) {
  let down = null;
  const at = (event) => [event.offsetX, event.offsetY];
  board.canvas.addEventListener("wheel", (event) => {
    if (event.offsetX < LABELS) return;
    event.preventDefault();
    const by = Math.exp(Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 100) / 300);
    zoom(core(), by, board.ns(event.offsetX));
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
      show(core(), down.from - by / board.perNs, down.to - by / board.perNs);
    }
  });
  board.canvas.addEventListener("pointerup", (event) => {
    const from = down;
    down = null;
    if (!from) return;
    if (!from.moved) clicked(...at(event));
    else if (event.shiftKey) {
      const [low, high] = [from.x, event.offsetX].sort((a, b) => a - b);
      show(core(), board.ns(low), board.ns(high));
    }
  });
}

/** Show `by` times as much time, and keep the position of one moment. */
export function zoom(core, by, around = (state.from + state.to) / 2) {
  show(core, around - (around - state.from) * by, around + (state.to - around) * by);
}
