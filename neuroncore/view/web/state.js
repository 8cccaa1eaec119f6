// The selection: one object, its copy in the address, and listeners for changes.

const START = {
  core: 0, step: -1, line: -1, from: 0, to: 0, order: "program", color: "critical", dma: "queues", pane: "summary",
  query: "", operand: 0, element: "", cycle: -1, cell: "", theme: "", type: "", corner: "", speed: 5,
};
const LINKED = Object.keys(START);

export const state = { ...START };
const listeners = [];

/** Call a listener after each change, with the names of the changed fields. */
export function listen(told) {
  listeners.push(told);
}

/** The pane that a selection opens: a step leaves the summary. */
function implied(changes) {
  return changes.step >= 0 && !changes.pane && state.pane === "summary" ? { pane: "step", ...changes } : changes;
}

/** Change a part of the state; listeners get only fields that changed. */
export function set(asked) {
  const changes = implied(asked);
  const changed = Object.keys(changes).filter((key) => state[key] !== changes[key]);
  if (!changed.length) return;
  Object.assign(state, changes);
  for (const told of listeners) told(new Set(changed));
  link();
}

/** The state as the fragment of an address: fields that differ from the start. */
export function fragment() {
  const parts = new URLSearchParams();
  for (const key of LINKED) if (state[key] !== START[key]) parts.set(key, state[key]);
  return parts.toString();
}

/** Read the state from an address. */
export function asked(text) {
  const found = {};
  for (const [key, value] of new URLSearchParams(text)) {
    if (LINKED.includes(key)) found[key] = typeof START[key] === "number" ? Number(value) : value;
  }
  return implied(found);
}

function link() {
  try {
    history.replaceState(null, "", `#${fragment()}`);
  } catch {
    // frames without a separate address cannot change it
  }
}
