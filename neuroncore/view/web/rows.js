// The rows of the timeline, named as the profiler names them, and what is on each.

import { lowerBound, sorted, TRANSFER } from "./model.js";

/** One row: a name, its instructions in order of time, and until when each lasts there. */
class Row {
  constructor(name, items, until) {
    Object.assign(this, { name, items, until });
  }

  /** Those of its instructions that a test lets through; the last ones remembered by a key. */
  only(key, test) {
    if (this.lastKey !== key) [this.lastKey, this.subset] = [key, this.items.filter(test)];
    return this.subset;
  }

  /** The instruction at a time, or -1; and those before and behind it. */
  at(core, ns) {
    const after = lowerBound(this.items, 0, this.items.length, ns, core.begin);
    const exact = after < this.items.length && core.begin[this.items[after]] === ns;
    const before = exact ? after : after - 1;
    const item = before >= 0 ? this.items[before] : -1;
    const inside = item >= 0 && ns <= this.until[item];
    return { item: inside ? item : -1, before: item, after: this.items[before + 1] ?? -1 };
  }
}

/** All rows of a core: its queues, and as many for each ring of transfers as fly at once. */
export function rowsOf(core) {
  const own = core.queues.map(() => []), flying = core.queues.map(() => []);
  for (const i of core.byTime) {
    const queue = core.queue[i];
    if (core.is(i, TRANSFER)) flying[queue].push(i);
    if (core.rows.queues[queue]) own[queue].push(i);
  }
  const rows = core.rows.queues.map((name, q) => new Row(name, Int32Array.from(own[q]), core.kept));
  for (const [queue, name] of core.rows.rings) {
    lanes(core, flying[queue]).forEach((lane, n) =>
      rows.push(new Row(`${name} ${n}`, Int32Array.from(lane), core.end)));
  }
  return rows;
}

/** Transfers side by side, each in the first lane that is free. */
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

/** Figures over time, each a name, a unit, times and the value from each of them on. */
export function counters(core) {
  const transfers = core.byTime.filter((i) => core.is(i, TRANSFER));
  const rate = (i) => core.callOf(i).bytes / Math.max(core.end[i] - core.begin[i], 1e-9);
  return [
    { name: "Pending DMA Count", unit: "", ...steps(core, transfers, () => 1) },
    { name: "DMA Throughput", unit: "GB/s", ...steps(core, transfers, rate) },
  ];
}

/** What intervals sum up to, over time. */
function steps(core, items, weight) {
  const ends = sorted(items, core.end, core.tick_ns), times = [0], values = [0];
  let value = 0;
  for (let b = 0, e = 0; e < ends.length;) {
    const begins = b < items.length && core.begin[items[b]] < core.end[ends[e]];
    const i = begins ? items[b++] : ends[e++];
    value += begins ? weight(i) : -weight(i);
    const time = begins ? core.begin[i] : core.end[i];
    if (time !== times.at(-1)) times.push(time), values.push(0);
    values[values.length - 1] = Math.abs(value) < 1e-6 ? 0 : value;
  }
  const most = values.reduce((a, b) => Math.max(a, b), 0) || 1;
  return { times: Float64Array.from(times), values: Float64Array.from(values), most };
}
