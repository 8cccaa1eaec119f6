// What waited for what.

import { ELSEWHERE, IN_TURN } from "./model.js";
import { duration, moment } from "./text.js";

/** The instructions that one waited for, one after the other, at most so many. */
export function chain(core, i, most) {
  const found = [];
  while (found.length < most && core.cause[i] >= 0) found.push((i = core.cause[i]));
  return found;
}

/** "12 nc_matmul (line 66)" */
export function named(core, i) {
  return `${core.number(i)} ${core.callOf(i).name} (line ${core.sites[core.site[i]][1]})`;
}

/** What let an instruction begin, in words. */
export function reason(core, i) {
  const cause = core.cause[i];
  if (core.is(i, ELSEWHERE)) return "an instruction that is not in this window";
  if (cause < 0) return "nothing: it could begin at once";
  if (core.is(i, IN_TURN)) return `its turn behind ${named(core, cause)}, which its queue had before it`;
  const late = core.begin[i] - core.end[cause];
  const more = late > 0.05 ? `; ${duration(late)} from then to its begin` : "";
  return `${named(core, cause)}, whose result is there at ${moment(core.end[cause])}${more}`;
}

/** Why a row is idle between two instructions. */
export function gapBefore(core, row, before, after) {
  const since = before < 0 ? 0 : row.until[before];
  return `${row.name} is idle for ${duration(row.since[after] - since)}:\n`
    + `${named(core, after)} waits for ${reason(core, after)}`;
}
