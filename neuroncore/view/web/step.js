// One instruction: its call, its times and their reasons, and its operands.

import { named, reason } from "./causes.js";
import { CRITICAL } from "./model.js";
import { set, state } from "./state.js";
import { $, duration, el, moment, table } from "./text.js";

const MOST_WAITERS = 12;

/** Return the instruction that is `by` steps further in the selected order, limited to the run. */
export function stepped(core, by) {
  const inTime = state.order === "time";
  const at = state.step < 0 ? -1 : inTime ? core.placeInTime[state.step] : state.step;
  const next = Math.min(Math.max(at + by, 0), core.count - 1);
  return inTime ? core.byTime[next] : next;
}

export function drawWalk(core) {
  const at = state.step < 0 ? -1 : state.order === "time" ? core.placeInTime[state.step] : state.step;
  const position = $("position");
  position.max = core.count - 1;
  position.value = at;
  $("where").textContent = `${at + 1} of ${core.count}`;
}

/** Return the instruction at the position of the slider. */
export function atPosition(core) {
  const at = Number($("position").value);
  return state.order === "time" ? core.byTime[at] : at;
}

export function drawStep(pane, core) {
  const i = state.step;
  if (i < 0) {
    pane.replaceChildren(el("p", { class: "faint" },
      "Select an instruction in the timeline, or step with the arrow keys."));
    return;
  }
  const call = core.callOf(i), critical = core.is(i, CRITICAL);
  pane.replaceChildren(
    el("div", {}, el("b", {}, `${core.number(i)}  ${call.name}`), `  on ${core.queues[core.queue[i]]}, `,
      place(core, i), critical ? el("span", { class: "critical" }, "  on the critical path") : ""),
    el("div", { id: "times" }, `begins at ${moment(core.begin[i])}, occupies its queue for `
      + `${duration(core.kept[i] - core.begin[i])}, result at ${moment(core.end[i])}`),
    el("div", {}, "waited for ", linked(core, core.cause[i], reason(core, i))),
    el("div", {}, "instructions that wait for it: ", ...waiters(core, i)),
    operands(core, i),
    el("div", { class: "code faint" }, settings(call)),
    table([], core.stackOf(i).map((frame, depth) => called(core, frame, depth))),
  );
}

/** Return a table row for a call in the kernel: its place, its function, and its loop variables. */
function called(core, [[file, line, , , , name], variables], depth) {
  const text = `${core.files[file].name.split("/").at(-1)}:${line}`;
  const index = core.lines.findIndex((each) => each.file === file && each.line === line);
  const values = Object.entries(variables).map(([key, value]) => `${key} = ${value}`).join(", ");
  return [depth ? "called at" : "at", index < 0 ? text : el("button", { class: "link", onclick: () => set({ line: index }) }, text),
    `in ${name}`, el("span", { class: "code" }, values)];
}

function settings(call) {
  const tiles = new Set([...call.reads, ...call.indices, ...call.writes]);
  return Object.entries(call.arguments).filter(([name]) => !tiles.has(name))
    .map(([name, value]) => `${name} = ${value}`).join("   ");
}

function place(core, i) {
  const [file, line] = core.sites[core.site[i]];
  return el("button", { class: "link", onclick: () => set({ line: core.lineOf(i) }) },
    `${core.files[file].name.split("/").at(-1)}:${line}`);
}

/** Return a link to an instruction. */
export function linked(core, i, text = named(core, i)) {
  if (i < 0) return el("span", {}, text);
  return el("button", { class: "link", onclick: () => set({ step: i }) }, text);
}

function waiters(core, i) {
  const found = core.waiters(i);
  if (!found.length) return ["nothing"];
  const shown = found.slice(0, MOST_WAITERS).flatMap((j) => [linked(core, j), ", "]).slice(0, -1);
  return found.length > MOST_WAITERS ? [...shown, ` and ${found.length - MOST_WAITERS} more`] : shown;
}

function operands(core, i) {
  const rows = core.operands(i).map((o, n) => [
    o.role,
    core.capture ? o.name : el("button", { class: "link", onclick: () => set({ operand: n, pane: "values" }) }, o.name),
    core.callOf(i).arguments[o.name] ?? "",
    `${tensor(core, o.area)}: ${range(core, o.box)}`,
    from(core, o),
    next(core, o),
  ]);
  return table(["", "operand", "tile", "where", "written by", "then"], rows);
}

/** Return the label of a tensor: its name or memory, and the line that created it. */
export function tensor(core, area) {
  const kind = core.kindOf(area);
  const born = kind.site >= 0 ? `, line ${core.sites[kind.site][1]}` : "";
  return `${kind.name || kind.memory} #${area}${born}`;
}

function range(core, box) {
  const { row, rows, byte, bytes } = core.boxes, one = (n, count) => (count > 1 ? `${n}-${n + count - 1}` : n);
  const what = core.kindOf(core.boxes.area[box]).memory.includes("hbm") ? "rows" : "partitions";
  return `${what} ${one(row[box], rows[box])}, bytes ${one(byte[box], bytes[box])}`;
}

function from(core, { operand }) {
  const writer = core.writerBefore(operand);
  return writer < 0 ? `nothing earlier${core.first ? " in this window" : ""}` : linked(core, writer);
}

function next(core, { operand }) {
  const reader = core.readerAfter(operand), writer = core.writerAfter(operand);
  const within = core.count < core.instructions ? " in this window" : "";
  const never = (core.writes(operand) ? "never read" : "not read again") + within;
  const read = reader < 0 ? [never] : ["read by ", linked(core, reader)];
  const written = writer < 0 ? [] : [", written by ", linked(core, writer)];
  return el("span", {}, ...read, ...written);
}
