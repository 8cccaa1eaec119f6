// The timeline: a row for each engine and DMA ring, with counters below.

import { Board, color, ink, inkOn, navigable, PALETTE, type } from "./canvas.js";
import { chain, gapBefore } from "./causes.js";
import { CRITICAL, lowerBound } from "./model.js";
import { counters, rowsOf } from "./rows.js";
import { matching } from "./search.js";
import { set, state } from "./state.js";
import { hottest } from "./summary.js";
import { $, duration, el, moment } from "./text.js";

const HEIGHT = 17, AXIS = 16, COUNTER = 30, MOST_LANES = 40;
const LEAST = 34; // pixels of a rectangle with a name

export class Timeline {
  constructor() {
    this.board = new Board($("timeline"), 100, "timeline");
    navigable(this);
  }

  open(core) {
    this.core = core;
    this.rowsBy = {};
    this.choose();
    this.counters = counters(core);
    this.names = ranked(core.call, (call) => core.calls[call].name);
    const hot = hottest(core).map(({ index }) => index);
    this.lines = [...hot, ...core.lines.map((_, index) => index).filter((index) => !hot.includes(index))];
    this.placeOfLine = new Map(this.lines.map((index, place) => [index, place]));
  }

  get high() {
    return HEIGHT * type();
  }

  get top() {
    return AXIS * type();
  }

  get counter() {
    return COUNTER * type();
  }

  /** Choose the rows: transfers are shown by queue or by DMA engine. */
  choose() {
    this.rows = this.rowsBy[state.dma] ??= rowsOf(this.core, state.dma === "engines").slice(0, MOST_LANES);
  }

  /** Find the highlighted instructions: those of the selected line, and the search results. */
  marked() {
    const { core } = this, found = state.query ? matching(core, state.query).fits : null;
    if (state.line < 0 && !found) return null;
    const test = (i) => (state.line < 0 || core.lineOf(i) === state.line) && (!found || found(i));
    return { key: `${state.core}|${state.line}|${state.query}`, test };
  }

  draw() {
    const { board, core } = this;
    if (!core) return;
    this.choose();
    const { high, top, counter } = this, below = top + this.rows.length * high;
    if (!board.begin(below + this.counters.length * counter + 4)) return;
    this.drawLegend();
    board.axis();
    const marked = this.marked();
    this.rows.forEach((row, n) => {
      const y = top + n * high;
      board.text(row.name, 4, y + 12 * type(), ink("ink"), board.left - 8);
      board.rect(board.left, y + high - 1, board.width - board.left, 1, ink("rule"));
    });
    board.clipped(() => {
      board.context.globalAlpha = marked ? 0.18 : 1;
      this.rows.forEach((row, n) => this.drawItems(row, row.items, n, !marked));
      board.context.globalAlpha = 1;
      if (marked) {
        this.rows.forEach((row, n) => this.drawItems(row, row.only(marked.key, marked.test), n, true));
      }
      this.drawChosen();
    });
    this.counters.forEach((each, n) => this.drawCounter(each, below + n * counter));
  }

  /** Draw the legend of the colors. */
  drawLegend() {
    const { core } = this, key = [state.color, state.core, document.documentElement.dataset.theme].join();
    if (key === this.legend) return;
    this.legend = key;
    const swatch = (fill) => {
      const made = el("i");
      made.style.background = fill;
      return made;
    };
    const entry = (fill, said, act) => el("span", {}, swatch(fill), act ? el("button", { class: "link", onclick: act }, said) : said);
    const line = (index) => [`line ${core.lines[index].line}`, () => set({ line: state.line === index ? -1 : index })];
    const several = { line: this.lines.map(line), name: this.names.map((name) => [name]) }[state.color];
    $("legend").replaceChildren(...(several
      ? [...several.slice(0, PALETTE).map(([said, act], n) => entry(color(n), said, act)), ...(several.length > PALETTE ? [entry(ink("other"), "others")] : [])]
      : [entry(ink("critical"), "on the critical path"), entry(ink("other"), "not on the critical path")]));
  }

  /** Draw at most one rectangle per pixel of the row. */
  drawItems(row, items, n, named) {
    const { board, core } = this, y = this.top + n * this.high + 1, height = this.high - 3;
    let at = Math.max(0, lowerBound(items, 0, items.length, state.from, row.since) - 1);
    while (at < items.length && row.since[items[at]] < state.to) {
      const i = items[at], x = board.x(row.since[i]), width = (row.until[i] - row.since[i]) * board.perNs;
      const fill = this.color(i), left = Math.max(x, board.left) + 3, room = Math.min(x + width, board.width) - left - 4;
      board.rect(x, y, Math.max(1, width - (width > 3 ? 1 : 0)), height, fill);
      if (named && room > LEAST * type()) board.text(core.callOf(i).name, left, y + 11 * type(), inkOn(fill), room);
      const next = Math.floor(Math.max(x + 1, x + width));
      at = width >= 1 ? at + 1
        : Math.max(at + 1, lowerBound(items, at, items.length, board.ns(next), row.since));
    }
  }

  /** Return the timeline as an animated picture: within ten seconds, a cover moves away from left to right. */
  animation() {
    const { board } = this, wide = board.width - board.left, move = (name, from, to) =>
      `<animate attributeName="${name}" dur="10s" repeatCount="indefinite" from="${from}" to="${to}"/>`;
    return board.svg(`<rect x="${board.left}" y="${this.top}" width="${wide}" height="${board.height}" fill="${ink("paper").trim()}" opacity="0.8">`
      + `${move("x", board.left, board.width)}${move("width", wide, 0)}</rect>`
      + `<rect x="${board.left}" y="0" width="1.5" height="${board.height}" fill="${ink("chosen").trim()}">${move("x", board.left, board.width)}</rect>`);
  }

  color(i) {
    const { core } = this;
    if (state.color === "critical") return ink(core.is(i, CRITICAL) ? "critical" : "other");
    const place = state.color === "name" ? this.names.indexOf(core.callOf(i).name) : this.placeOfLine.get(core.lineOf(i));
    return place < PALETTE ? color(place) : ink("other");
  }

  drawChosen() {
    const { board, core } = this, i = state.step;
    if (i < 0) return;
    const context = board.context, path = [i, ...chain(core, i, 60)];
    context.lineWidth = 1.5;
    context.strokeStyle = ink("critical");
    for (let n = 1; n < path.length; n++) {
      const [late, early] = [path[n - 1], path[n]];
      context.beginPath();
      context.moveTo(board.x(Math.min(core.end[early], core.begin[late])), this.middle(early));
      context.lineTo(board.x(core.begin[late]), this.middle(late));
      context.stroke();
    }
    for (const [n, row] of this.rows.entries()) {
      if (!row.has(i)) continue;
      const width = Math.max(3, (row.until[i] - row.since[i]) * board.perNs);
      context.strokeStyle = ink("chosen");
      context.lineWidth = 2;
      context.strokeRect(board.x(row.since[i]), this.top + n * this.high + 1, width, this.high - 3);
    }
    board.rect(board.x(core.begin[i]), 0, 1, board.height, ink("chosen"));
  }

  /** Return the middle of an instruction's rectangle, in pixels of the canvas. */
  placeOf(i) {
    const { since, until } = this.rows.findLast((row) => row.has(i));
    return [this.board.x((since[i] + until[i]) / 2), this.middle(i)];
  }

  /** Return the vertical position of the last row that has an instruction. */
  middle(i) {
    const n = this.rows.findLastIndex((row) => row.has(i));
    return this.top + (n + 0.5) * this.high;
  }

  drawCounter({ name, unit, times, values, most }, y) {
    const { board, counter } = this;
    board.text(name, 4, y + 12 * type(), ink("ink"), board.left - 8);
    board.text(`up to ${Number(most.toPrecision(3))} ${unit}`, 4, y + 25 * type(), ink("faint"), board.left - 8);
    const scale = (counter - 5) / most;
    board.clipped(() => {
      let at = Math.max(0, lowerBound(times, 0, times.length, state.from) - 1);
      while (at < times.length && times[at] < state.to) {
        const x = board.x(times[at]), next = at + 1 < times.length ? board.x(times[at + 1]) : board.width;
        const value = values[at] * scale;
        board.rect(x, y + counter - 2 - value, Math.max(1, next - x), value, ink("accent"));
        const jump = lowerBound(times, at, times.length, board.ns(Math.floor(x) + 1)) - 1;
        at = Math.max(at + 1, jump);
      }
    });
  }

  rowAt(y) {
    return this.rows[Math.floor((y - this.top) / this.high)];
  }

  clicked(x, y) {
    const row = this.rowAt(y);
    if (!row || x < this.board.left) return;
    const { item, after } = row.at(this.board.ns(x));
    const near = item < 0 ? row.at(this.board.ns(x - 2)).item : item;
    if (near >= 0) set({ step: near });
    else if (after >= 0) set({ step: after, pane: "step" });
  }

  hover(event) {
    const card = $("card"), row = event.buttons ? null : this.rowAt(event.offsetY), { core } = this;
    card.hidden = !row || event.offsetX < this.board.left;
    if (card.hidden) return;
    const { item, before, after } = row.at(this.board.ns(event.offsetX));
    card.hidden = item < 0 && after < 0;
    if (card.hidden) return;
    card.textContent = item < 0 ? gapBefore(core, row, before, after) : said(core, item);
    const x = Math.min(event.clientX + 14, window.innerWidth - 340);
    Object.assign(card.style, { left: `${x}px`, top: `${event.clientY + 16}px` });
  }
}

function said(core, i) {
  const call = core.callOf(i);
  const given = Object.entries(call.arguments).map(([name, value]) => `${name} = ${value}`);
  const times = `from ${moment(core.begin[i])} for ${duration(core.kept[i] - core.begin[i])}, `
    + `result at ${moment(core.end[i])}`;
  return [`${core.number(i)}  ${call.name}  line ${core.sites[core.site[i]][1]}`, times, ...given].join("\n");
}

/** Return the names that belong to numbers, the most frequent one first. */
function ranked(numbers, nameOf) {
  const counts = new Map();
  for (const number of numbers) counts.set(number, (counts.get(number) ?? 0) + 1);
  const byName = new Map();
  for (const [number, count] of counts) byName.set(nameOf(number), (byName.get(nameOf(number)) ?? 0) + count);
  return [...byName].sort((a, b) => b[1] - a[1]).map(([name]) => name);
}
