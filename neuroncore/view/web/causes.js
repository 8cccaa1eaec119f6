// For each instruction: the instruction that it waited for, and why a row is idle before it.

import { ELSEWHERE, IN_TURN } from "./model.js";
import { duration, moment } from "./text.js";

/** Return the chain of at most `most` instructions that an instruction waited for, the last one first. */
export function chain(core, i, most) {
  const found = [];
  while (found.length < most && core.cause[i] >= 0) found.push((i = core.cause[i]));
  return found;
}

/** Return the name of an instruction, such as "12 nc_matmul (line 66)". */
export function named(core, i) {
  return `${core.number(i)} ${core.callOf(i).name} (line ${core.sites[core.site[i]][1]})`;
}

/** Return the reason why an instruction did not begin earlier, as text. */
export function reason(core, i) {
  const cause = core.cause[i];
  if (core.is(i, ELSEWHERE)) return "an instruction that is not in this window";
  if (cause < 0) return "nothing: it began at once";
  if (core.is(i, IN_TURN)) return `${named(core, cause)}, the instruction before it in the queue`;
  const late = core.begin[i] - core.end[cause];
  const more = late > 0.05 ? `; this instruction began ${duration(late)} later` : "";
  return `${named(core, cause)}, whose result is available at ${moment(core.end[cause])}${more}`;
}

/** Return a text that says why a row is idle between two instructions. */
export function gapBefore(core, row, before, after) {
  const since = before < 0 ? 0 : row.until[before];
  return `${row.name} is idle for ${duration(row.since[after] - since)}:\n`
    + `${named(core, after)} waits for ${reason(core, after)}`;
}
