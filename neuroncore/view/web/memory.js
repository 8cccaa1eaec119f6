// SBUF and PSUM as addresses over time: a rectangle for each tensor while it is in use.

import { Board, color, ink, inkOn, navigable, type } from "./canvas.js";
import { lowerBound, sorted } from "./model.js";
import { set, state } from "./state.js";
import { tensor } from "./step.js";
import { $, duration, el, moment, plural, size } from "./text.js";

const HEIGHT = 170;
const ESTIMATED = "A rectangle is a tensor from its first use to its last, hatched between its first write "
  + "and its first read. The line shows how much memory is in use over time. \"In program order\" is the peak if instructions ran "
  + "one after another; the estimate allocates this much. If the kernel gives no address, a tensor is "
  + "shown at the lowest free address; the device's compiler may choose a different address.";
const MEASURED = "A rectangle is an operand of instructions at the compiler's address, from its first use to its last. "
  + "The line is the sum of the operands' bytes. Transfers are not included.";

/** Return the tensors of a memory, each with its address, its lifetime, its first write, and its first and
 * last read. */
function residents(core, memory) {
  const found = [];
  for (let area = 0; area < core.areaKind.length; area++) {
    const kind = core.kindOf(area), at = core.areaAt[area];
    const users = core.accessed.subarray(core.accessStart[area], core.accessStart[area + 1]);
    if (kind.memory !== memory || !users.length) continue;
    if (!kind.placed) found.push(life(core, area, at, kind.row_bytes, users));
    else found.push(...placed(core, area, users));
  }
  return found.sort((a, b) => a.born - b.born);
}

/** Return the tensors at addresses that the kernel chose. They are identified by their accessed bytes. */
function placed(core, area, users) {
  const byBox = Map.groupBy(users, (operand) => core.box[operand]);
  return [...byBox].map(([box, own]) =>
    life(core, area, core.boxes.byte[box], core.boxes.bytes[box], own));
}

function life(core, area, at, bytes, users) {
  const one = { area, at, bytes, born: Infinity, dead: 0, written: Infinity, read: Infinity, last: 0,
    user: core.user[users[0]] };
  for (const operand of users) {
    const i = core.user[operand];
    one.born = Math.min(one.born, core.begin[i]);
    one.dead = Math.max(one.dead, core.end[i]);
    if (core.writes(operand)) one.written = Math.min(one.written, core.end[i]);
    else {
      one.read = Math.min(one.read, core.begin[i]);
      one.last = Math.max(one.last, core.end[i]);
    }
  }
  return one;
}

class MemoryMap {
  constructor(pane, memory) {
    this.memory = memory;
    this.said = el("p", {});
    pane.append(this.said);
    this.board = new Board(pane, HEIGHT, `${memory} as addresses over time`);
    navigable(this);
  }

  open(core) {
    this.core = core;
    this.limits = core.memories[this.memory];
    this.tiles = null; // read when they are first drawn
  }

  readTiles(core) {
    this.tiles = residents(core, this.memory);
    this.top = this.tiles.reduce((most, tile) => Math.max(most, tile.at + tile.bytes), 1);
    this.born = Float64Array.from(this.tiles, (tile) => tile.born);
    let latest = 0; // end of the tiles born so far
    this.reach = Float64Array.from(this.tiles, (tile) => (latest = Math.max(latest, tile.dead)));
    this.use = pressure(core, this.tiles);
  }

  /** Return the tiles that are in use at some time in an interval. */
  between(from, to) {
    const first = lowerBound(this.reach, 0, this.tiles.length, from);
    const last = lowerBound(this.born, first, this.tiles.length, to);
    return this.tiles.slice(first, last).filter((tile) => tile.dead > from);
  }

  y(byte) {
    return HEIGHT - 4 - (byte / this.top) * (HEIGHT - 22);
  }

  draw() {
    const { board, core, limits } = this;
    if (!core || !board.begin(HEIGHT)) return;
    if (!this.tiles) this.readTiles(core);
    board.axis();
    const now = state.step < 0 ? state.from : core.begin[state.step];
    const alive = this.between(now, now + core.tick_ns);
    this.said.replaceChildren(el("b", {}, this.memory.toUpperCase()), ` per partition: peak ${size(this.tiles.length ? this.top : 0)} of ${size(limits.bytes)}`
      + `${core.capture ? "" : ` (in program order ${size(limits.peak)})`}; at ${moment(now, 10)}: `
      + `${plural(alive.length, "tile")}, ${size(alive.reduce((sum, tile) => sum + tile.bytes, 0))}`);
    for (const share of [0, 0.5, 1]) {
      const byte = Math.round(this.top * share);
      if (this.tiles.length) board.text(`byte ${byte.toLocaleString("en")}`, 12, this.y(byte) + 10 * type() * share, ink("faint"), board.left - 14);
    }
    board.clipped(() => {
      const labels = this.drawTiles();
      this.drawLimits();
      this.drawUse();
      for (const label of labels) this.label(...label);
      if (state.step >= 0) board.rect(board.x(now), 0, 1, HEIGHT, ink("chosen"));
    });
  }

  /** Draw the tiles, and return the labels that fit. If tiles are smaller than a pixel, draw one tile per pixel. */
  drawTiles() {
    const { board } = this, taken = new Uint8Array((board.width + 1) * HEIGHT);
    const chosen = this.chosen(), labels = [];
    for (const tile of this.between(state.from, state.to)) {
      const x = board.x(tile.born), width = board.x(tile.dead) - x;
      const y = this.y(tile.at + tile.bytes), height = this.y(tile.at) - y;
      if (width < 1 || height < 1) {
        const pixel = Math.round(Math.max(x, 0)) + Math.round(y) * board.width;
        if (width < 1 && taken[pixel]++) continue;
      }
      const dim = chosen && !chosen.has(tile.area);
      board.context.globalAlpha = dim ? 0.35 : 0.85;
      board.rect(x, y, Math.max(1, width - (width > 3 ? 1 : 0)), Math.max(1, height - (height > 3 ? 1 : 0)),
        this.color(tile));
      this.drawDead(tile, y, height);
      const left = Math.max(x, board.left) + 3, room = Math.min(x + width, board.width) - left - 3;
      if (room > 40 * type() && height > 12 * type() && !dim) labels.push([tile, left, y, room]);
    }
    board.context.globalAlpha = 1;
    return labels;
  }

  /** Draw a label on a background of its color, so that hatching does not cross it. */
  label(tile, x, y, room) {
    const { board } = this, shown = board.fitting(this.called(tile), room);
    if (!shown) return;
    board.rect(x - 1, y + 1, board.context.measureText(shown).width + 2, 11 * type(), this.color(tile));
    board.text(shown, x, y + 10 * type(), inkOn(this.color(tile)));
  }

  /** Return the label of a tile. The label contains the address if the kernel chose the address. */
  called(tile) {
    const { placed, memory } = this.core.kindOf(tile.area);
    return placed ? `${memory} from byte ${tile.at}` : tensor(this.core, tile.area);
  }

  /** Hatch the time between the first write and the first read. */
  drawDead(tile, y, height) {
    const { board } = this, x = board.x(tile.written), width = board.x(Math.min(tile.read, tile.dead)) - x;
    const left = Math.max(x, board.left), right = Math.min(x + width, board.width), { context } = board;
    if (right - left < 4 || height < 3) return;
    context.save();
    context.beginPath();
    context.rect(left, y, right - left, height);
    context.clip();
    context.strokeStyle = ink("paper");
    context.lineWidth = 1;
    context.beginPath();
    for (let at = left - height - ((left - height) % 6); at < right; at += 6) {
      context.moveTo(at, y + height);
      context.lineTo(at + height, y);
    }
    context.stroke();
    context.restore();
  }

  drawLimits() {
    const { board, limits } = this;
    for (let at = limits.bank; limits.bank && at < this.top; at += limits.bank) {
      board.rect(board.left, this.y(at), board.width, 1, ink("rule"));
    }
    if (limits.bytes <= this.top) board.rect(board.left, this.y(limits.bytes) - 1, board.width, 2, ink("critical"));
  }

  /** Draw the bytes in use as a line with at most two points per pixel. */
  drawUse() {
    const { board, use: { times, values } } = this, { context } = board;
    context.strokeStyle = ink("chosen");
    context.lineWidth = 1.3;
    context.beginPath();
    let at = Math.max(0, lowerBound(times, 0, times.length, state.from) - 1);
    while (at < times.length && times[at] < state.to) {
      const x = board.x(times[at]), next = at + 1 < times.length ? board.x(times[at + 1]) : x;
      context.lineTo(x, this.y(values[at]));
      context.lineTo(next, this.y(values[at]));
      at = Math.max(at + 1, lowerBound(times, at, times.length, board.ns(Math.floor(x) + 1)) - 1);
    }
    context.stroke();
  }

  /** Return the tensors of the selected step's operands; null, which means all, if no step is selected. */
  chosen() {
    if (state.step < 0) return null;
    return new Set(this.core.operands(state.step).map((operand) => operand.area));
  }

  color(tile) {
    const site = this.core.kindOf(tile.area).site;
    return color(site < 0 ? this.core.lineOf(tile.user) : site);
  }

  under(x, y) {
    const ns = this.board.ns(x);
    return this.between(ns, ns + this.core.tick_ns).find((tile) => this.y(tile.at + tile.bytes) <= y && y < this.y(tile.at));
  }

  clicked(x, y) {
    const tile = this.under(x, y);
    if (tile) set({ step: tile.user });
  }

  hover(event) {
    const card = $("card");
    const tile = event.buttons || event.offsetX < this.board.left ? null : this.under(event.offsetX, event.offsetY);
    card.hidden = !tile;
    if (!tile) return;
    const unread = tile.last ? `last read until ${moment(tile.last)}` : "never read";
    const lies = this.core.kindOf(tile.area).placed ? "at byte" : "for example at byte";
    const waits = Number.isFinite(tile.read) && tile.read > tile.written
      ? `\nwritten ${duration(tile.read - tile.written)} before its first read` : "";
    card.textContent = `${this.called(tile)}\n${size(tile.bytes)} per partition, ${lies} ${tile.at}\n`
      + `in use from ${moment(tile.born)} to ${moment(tile.dead)}, ${unread}${waits}`;
    const x = Math.min(event.clientX + 14, window.innerWidth - 340);
    Object.assign(card.style, { left: `${x}px`, top: `${event.clientY + 16}px` });
  }
}

/** Return the bytes in use over time. */
function pressure(core, tiles) {
  const index = Int32Array.from(tiles.keys());
  const [births, deaths] = ["born", "dead"].map((when) => Float64Array.from(tiles, (tile) => tile[when]));
  const ends = sorted(index, deaths, core.tick_ns), times = [0], values = [0];
  let value = 0;
  for (let b = 0, e = 0; e < ends.length;) {
    const begins = b < tiles.length && births[b] < deaths[ends[e]];
    value += begins ? tiles[b].bytes : -tiles[ends[e]].bytes;
    times.push(begins ? births[b++] : deaths[ends[e++]]);
    values.push(value);
  }
  return { times: Float64Array.from(times), values: Float64Array.from(values) };
}

export class Memory {
  constructor(pane) {
    this.maps = ["sbuf", "psum"].map((memory) => new MemoryMap(pane, memory));
    this.about = document.createElement("p");
    this.about.className = "faint";
    pane.append(this.about);
  }

  open(core) {
    this.about.textContent = core.capture ? MEASURED : ESTIMATED;
    this.maps.forEach((map) => map.open(core));
  }

  draw() {
    this.maps.forEach((map) => map.draw());
  }
}
