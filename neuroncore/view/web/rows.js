// The rows of the timeline, with the profiler's names, and their instructions.

import { lowerBound, sorted, TRANSFER } from "./model.js";

/** A row: its name, its instructions in the order of time, and the begin and end of each instruction. */
class Row {
  constructor(name, items, since, until) {
    Object.assign(this, { name, items: Int32Array.from(items), since, until });
  }

  /** Return the instructions that pass a test. The last result is cached by the key. */
  only(key, test) {
    if (this.lastKey !== key) [this.lastKey, this.subset] = [key, this.items.filter(test)];
    return this.subset;
  }

  /** Return the instruction at a time (-1 if there is none), and its neighbors before and after. */
  at(ns) {
    const after = lowerBound(this.items, 0, this.items.length, ns, this.since);
    const exact = after < this.items.length && this.since[this.items[after]] === ns;
    const before = exact ? after : after - 1;
    const item = before >= 0 ? this.items[before] : -1;
    const inside = item >= 0 && ns <= this.until[item];
    return { item: inside ? item : -1, before: item, after: this.items[before + 1] ?? -1 };
  }

  has(i) {
    return this.at(this.since[i]).item === i;
  }
}

/** Return all rows of a core: its queues, its collectives, and either a row per DMA engine,
  or one per transfer in flight for each ring. */
export function rowsOf(core, byEngine) {
  const own = core.queues.map(() => []), flying = core.queues.map(() => []), joined = [];
  const [together, calls] = core.rows.collectives;
  for (const i of core.byTime) {
    const queue = core.queue[i];
    if (calls.includes(core.call[i])) joined.push(i);
    else if (core.is(i, TRANSFER)) flying[queue].push(i);
    if (core.rows.queues[queue]) own[queue].push(i);
  }
  const rows = core.rows.queues.map((name, q) => new Row(name, own[q], core.begin, core.kept));
  if (joined.length) rows.push(new Row(together, joined, core.begin, core.end));
  if (byEngine) return [...rows, ...engines(core)];
  for (const [queue, name] of core.rows.rings) {
    lanes(core, flying[queue]).forEach((lane, n) => rows.push(new Row(`${name} ${n}`, lane, core.begin, core.end)));
  }
  return rows;
}

/** Return a row for each DMA engine, with the transfers whose bytes this engine moves. */
function engines(core) {
  const found = [];
  for (const i of moving(core)) {
    for (let e = core.engine[i]; e < core.engine[i] + core.engines[i]; e++) (found[e] ??= []).push(i);
  }
  return Array.from(found, (items, e) => new Row(`DMA-E${e}`, items ?? [], core.move, core.moved));
}

/** Return the transfers that occupy DMA engines, in the order of their begin. */
function moving(core) {
  const own = core.byTime.filter((i) => core.engines[i] && core.moved[i] > core.move[i]);
  return sorted(own, core.move, core.tick_ns);
}

/** Return transfers in lanes. Each transfer is in the first lane that is free. */
function lanes(core, transfers) {
  const found = [], free = [];
  for (const i of transfers) {
    let lane = free.findIndex((until) => until <= core.begin[i]);
    if (lane < 0) lane = found.push([]) - 1;
    found[lane].push(i);
    free[lane] = core.end[i];
  }
  return found;
}

/** Return counters over time. A counter has a name, a unit, times, and the value from each time on. */
export function counters(core) {
  const transfers = core.byTime.filter((i) => core.is(i, TRANSFER));
  const rate = (i) => core.callOf(i).bytes / (core.moved[i] - core.move[i]);
  const pending = { name: "Pending DMA Count", unit: "", ...steps(core, transfers, core.begin, core.end, () => 1) };
  return [pending, ...(core.counters ?? [
    { name: "DMA Throughput", unit: "GB/s", ...steps(core, moving(core), core.move, core.moved, rate) },
  ])];
}

/** Return the sum of the values of intervals over time. */
function steps(core, items, since, until, weight) {
  const ends = sorted(items, until, core.tick_ns), times = [0], values = [0];
  let value = 0;
  for (let b = 0, e = 0; e < ends.length;) {
    const begins = b < items.length && since[items[b]] < until[ends[e]];
    const i = begins ? items[b++] : ends[e++];
    value += begins ? weight(i) : -weight(i);
    const time = begins ? since[i] : until[i];
    if (time !== times.at(-1)) times.push(time), values.push(0);
    values[values.length - 1] = Math.abs(value) < 1e-6 ? 0 : value;
  }
  const most = values.reduce((a, b) => Math.max(a, b), 0) || 1;
  return { times: Float64Array.from(times), values: Float64Array.from(values), most };
}
