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

/** Return the changes, with the pane that they open: selecting a step replaces the summary by the step. */
function implied(changes) {
  return changes.step >= 0 && !changes.pane && state.pane === "summary" ? { pane: "step", ...changes } : changes;
}

/** Change fields of the state. Listeners get the names of the fields whose values changed. */
export function set(asked) {
  const changes = implied(asked);
  const changed = Object.keys(changes).filter((key) => state[key] !== changes[key]);
  if (!changed.length) return;
  Object.assign(state, changes);
  for (const told of listeners) told(new Set(changed));
  link();
}

/** Return the state as the fragment of an address: the fields that differ from their first values. */
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
