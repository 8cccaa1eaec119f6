// The timeline and the record of a core, read from the document once.

import { filled, parsed, signed, summedByCall, unpacked } from "./columns.js";

export const CRITICAL = 1; // flags of an instruction
export const IN_TURN = 2;
export const TRANSFER = 4;
export const ELSEWHERE = 8; // it waited for an instruction that is not on the page
const KEPT = 8; // numbers of which an operand of a call has the rank, as in view/loops.py
const EXACT = 1 << 16; // elements of an access that are compared one by one

export class Core {
  /** Decode the columns of one core of the document. */
  static async read(core) {
    const columns = {};
    for (const [name, column] of Object.entries(core.columns)) {
      const values = await unpacked(column);
      columns[name] = column.by_call ? summedByCall(values, columns.call) : values;
    }
    const stacks = core.stacks && {
      of: await unpacked(core.stacks.of), all: await parsed(core.stacks.all),
    };
    return new Core({ ...core, stacks, calls: await filled(core.calls), patterns: await parsed(core.patterns) }, columns);
  }

  constructor(core, columns) {
    Object.assign(this, core, { columns: undefined });
    const { call, site, queue, flags, engine, engines } = columns;
    Object.assign(this, { call, site, queue, flags, engine, engines });
    this.readTimes(columns);
    this.readOperands(columns);
    this.readAreas(columns);
    const rows = new Map(this.lines.map((line, index) => [`${line.file}:${line.line}`, index]));
    this.lineOfSite = this.sites.map(([file, line]) => rows.get(`${file}:${line}`) ?? -1);
    this.byTime = sorted(Int32Array.from(call.keys()), this.begin, this.tick_ns);
    this.placeInTime = inverse(this.byTime);
    const all = this.count === this.instructions; // otherwise the page has a window of the run
    this.from = all || !this.count ? 0 : this.begin.reduce((a, b) => Math.min(a, b));
    this.to = (all || !this.count ? this.total_ns : this.end.reduce((a, b) => Math.max(a, b))) || 1;
  }

  /** Return the number of an instruction, which is its position in the program. */
  number(i) {
    return this.first + i;
  }

  readTimes({ begin, busy, rest, cause, queue, flags, move, moving, engines }) {
    const count = this.count, tick = this.tick_ns, last = new Float64Array(this.queues.length);
    this.begin = new Float64Array(count);
    this.kept = new Float64Array(count); // when its queue is free again
    this.end = new Float64Array(count); // when its result is available
    this.move = new Float64Array(count); // when DMA engines begin to move its bytes,
    this.moved = new Float64Array(count); // and have done so
    this.cause = new Int32Array(count);
    for (let i = 0; i < count; i++) { // in ticks
      const by = this.cause[i] = cause[i] ? i - signed(cause[i]) : -1, waits = by >= 0 && by < i;
      const over = flags[i] & IN_TURN ? this.kept[by] : this.end[by];
      const at = (waits ? over : last[queue[i]]) + signed(begin[i]);
      this.begin[i] = last[queue[i]] = at;
      this.kept[i] = at + busy[i];
      this.move[i] = at + move[i];
      this.moved[i] = this.move[i] + moving[i];
      this.end[i] = (engines[i] ? this.moved[i] : this.kept[i]) + rest[i];
    }
    // products of whole ticks, so that a transfer that begins where another ends has its time
    for (const times of [this.begin, this.kept, this.end, this.move, this.moved]) {
      for (let i = 0; i < count; i++) times[i] *= tick;
    }
  }

  readOperands({ operand, recent, call }) {
    const widths = this.calls.map((c) => c.reads.length + c.indices.length + c.writes.length);
    this.start = new Uint32Array(this.count + 1);
    for (let i = 0; i < this.count; i++) this.start[i + 1] = this.start[i] + widths[call[i]];
    this.user = new Uint32Array(recent.length);
    for (let i = 0; i < this.count; i++) this.user.fill(i, this.start[i], this.start[i + 1]);
    const key = (k) => call[this.user[k]] * 65536 + k - this.start[this.user[k]];
    this.box = withRecent(numbered(operand), recent, key);
  }

  readAreas(columns) {
    this.boxes = Object.fromEntries(["area", "row", "rows", "byte", "bytes", "pattern"]
      .map((name) => [name, columns[`box_${name}`]]));
    this.boxes.area = numbered(columns.box_area, true);
    this.areaKind = columns.area_kind;
    this.areaAt = columns.area_at;
    const users = new Uint32Array(this.areaKind.length + 1);
    for (const box of this.box) users[this.boxes.area[box] + 1]++;
    for (let a = 0; a < this.areaKind.length; a++) users[a + 1] += users[a];
    const next = users.slice();
    this.accessed = new Uint32Array(this.box.length); // operands by area, in order of the program
    for (let k = 0; k < this.box.length; k++) this.accessed[next[this.boxes.area[this.box[k]]]++] = k;
    this.accessStart = users;
  }

  // --- an instruction ----------------------------------------------------------------------------

  callOf(i) {
    return this.calls[this.call[i]];
  }

  lineOf(i) {
    return this.lineOfSite[this.site[i]];
  }

  /** Return the call stack of an instruction, innermost frame first; empty if unknown. A frame has a site and
   * integer variables. */
  stackOf(i) {
    return this.stacks ? this.stacks.all[this.stacks.of[i]] : [];
  }

  is(i, flag) {
    return (this.flags[i] & flag) !== 0;
  }

  /** Return the operands of an instruction: name, role (reads, index or writes), box, and tensor. */
  operands(i) {
    const { reads, indices, writes } = this.callOf(i);
    const roles = [...reads.map((n) => [n, "reads"]), ...indices.map((n) => [n, "index"]),
      ...writes.map((n) => [n, "writes"])];
    return roles.map(([name, role], n) => {
      const operand = this.start[i] + n, box = this.box[operand], area = this.boxes.area[box];
      return { name, role, operand, box, area, kind: this.kindOf(area) };
    });
  }

  kindOf(area) {
    return this.kinds[this.areaKind[area]];
  }

  writes(operand) {
    const i = this.user[operand], { reads, indices } = this.callOf(i);
    return operand - this.start[i] >= reads.length + indices.length;
  }

  /** Return the instructions that waited for an instruction. */
  waiters(i) {
    const found = [];
    for (let j = 0; j < this.count; j++) if (this.cause[j] === i) found.push(j);
    return found;
  }

  /** Return how long the queue of an instruction is idle before the instruction. */
  idleBefore(i) {
    if (!this.idle) {
      this.idle = new Float64Array(this.count);
      const free = new Float64Array(this.queues.length);
      for (const j of this.byTime) {
        this.idle[j] = Math.max(0, this.begin[j] - free[this.queue[j]]);
        free[this.queue[j]] = this.kept[j];
      }
    }
    return this.idle[i];
  }

  // --- bytes -------------------------------------------------------------------------------------

  /** Return whether two accesses of one tensor share bytes in the estimate. */
  meet(one, two) {
    if (one === two) return true;
    const { row, rows, byte, bytes, pattern } = this.boxes;
    const apart = row[one] >= row[two] + rows[two] || row[two] >= row[one] + rows[one]
      || byte[one] >= byte[two] + bytes[two] || byte[two] >= byte[one] + bytes[one];
    if (apart || !pattern[one] || !pattern[two]) return !apart;
    const [a, b] = [pattern[one], pattern[two]].map((p) => this.patterns[p - 1]);
    if ([a, b].some(([, shape, , item]) => product(shape) * item > EXACT)) return true;
    const there = new Set(bytesOf(a));
    return bytesOf(b).some((at) => there.has(at));
  }

  /** Return the last earlier instruction that wrote bytes of an operand; -1 if there is none. */
  writerBefore(operand) {
    return this.neighbor(operand, -1, (other) => this.writes(other));
  }

  readerAfter(operand) {
    return this.neighbor(operand, 1, (other) => !this.writes(other));
  }

  writerAfter(operand) {
    return this.neighbor(operand, 1, (other) => this.writes(other));
  }

  neighbor(operand, step, wanted) {
    const box = this.box[operand], area = this.boxes.area[box], own = this.user[operand];
    const [low, high] = [this.accessStart[area], this.accessStart[area + 1]];
    let at = lowerBound(this.accessed, low, high, operand);
    for (at += step; at >= low && at < high; at += step) {
      const other = this.accessed[at];
      if (this.user[other] !== own && wanted(other) && this.meet(this.box[other], box)) {
        return this.user[other];
      }
    }
    return -1;
  }
}

/** Return indices sorted by time; equal times keep their order. A run has fewer than 2^31 ticks, so a tick
 * and a position fit into a number of 53 bits. */
export function sorted(indices, time, tick) {
  const count = indices.length;
  const keys = Float64Array.from(indices, (i, n) => Math.round(time[i] / tick) * count + n).sort();
  return Int32Array.from(keys, (key) => indices[key % count]);
}

/** Decode numbers that are stored as distances from the next new number; `tagged` numbers are
 * twice the distance, or one more than twice the number itself. */
function numbered(back, tagged = false) {
  const found = new Uint32Array(back.length);
  for (let n = 0, next = 0; n < back.length; n++) {
    const given = tagged ? Math.floor(back[n] / 2) : back[n];
    found[n] = tagged && back[n] % 2 ? given : next - given;
    if (found[n] === next) next++;
  }
  return found;
}

/** Return a number for each rank: for 0 the next one of `given`, for r > 0 the r-th of the different
 * numbers that the same key had last, the latest first. */
function withRecent(given, rank, key) {
  const found = new Uint32Array(rank.length), known = new Map();
  for (let k = 0, next = 0; k < rank.length; k++) {
    const own = key(k), last = known.get(own) ?? [];
    if (!last.length) known.set(own, last);
    found[k] = rank[k] ? last.splice(rank[k] - 1, 1)[0] : given[next++];
    last.unshift(found[k]);
    if (last.length > KEPT) last.pop();
  }
  return found;
}

function inverse(order) {
  const found = new Int32Array(order.length);
  for (let n = 0; n < order.length; n++) found[order[n]] = n;
  return found;
}

/** Return the first position from `low` to `high` where an ascending array is not below a value. */
export function lowerBound(values, low, high, value, key = null) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((key ? key[values[middle]] : values[middle]) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function product(numbers) {
  return numbers.reduce((a, b) => a * b, 1);
}

function bytesOf([offset, shape, strides, item]) {
  let places = [offset];
  for (const [count, step] of [...shape.map((n, i) => [n, strides[i]]), [item, 1]]) {
    places = places.flatMap((at) => Array.from({ length: count }, (_, k) => at + k * step));
  }
  return places;
}
