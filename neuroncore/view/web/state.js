// What is chosen: one object, its copy in the address, and who is told of changes.

const START = {
  core: 0, step: -1, line: -1, from: 0, to: 0, order: "program", colour: "line", dma: "queues", pane: "step",
  query: "", operand: 0, element: "", cycle: 0, cell: "", theme: "",
};
const LINKED = Object.keys(START);

export const state = { ...START };
const listeners = [];

/** Be told, with the names of what changed, after each change. */
export function listen(told) {
  listeners.push(told);
}

/** Change some of the state; nothing is told of what stays the same. */
export function set(changes) {
  const changed = Object.keys(changes).filter((key) => state[key] !== changes[key]);
  if (!changed.length) return;
  Object.assign(state, changes);
  for (const told of listeners) told(new Set(changed));
  link();
}

/** The state as the part of an address behind #: what differs from the start. */
export function fragment() {
  const parts = new URLSearchParams();
  for (const key of LINKED) if (state[key] !== START[key]) parts.set(key, state[key]);
  return parts.toString();
}

/** What an address asks for. */
export function asked(text) {
  const found = {};
  for (const [key, value] of new URLSearchParams(text)) {
    if (LINKED.includes(key)) found[key] = typeof START[key] === "number" ? Number(value) : value;
  }
  return found;
}

function link() {
  try {
    history.replaceState(null, "", `#${fragment()}`);
  } catch {
    // frames without an address of their own have none to change
  }
}
