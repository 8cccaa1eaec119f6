// The search box: all words must match. "matmul line:102 wait>500ns critical"

import { CRITICAL, TRANSFER } from "./model.js";

const UNITS = { ns: 1, us: 1e3, ms: 1e6, s: 1e9 };
const LENGTH = /^(wait|busy|takes)([<>])([\d.]+)(ns|us|ms|s)?$/;

/** Return a test of instructions for a search text. */
export function matching(core, text) {
  const tests = text.trim().toLowerCase().split(/\s+/).filter(Boolean).map((word) => test(core, word));
  return (i) => tests.every((one) => one(i));
}

function test(core, word) {
  const length = LENGTH.exec(word);
  if (length) {
    const [, what, sign, number, unit] = length, limit = Number(number) * UNITS[unit ?? "ns"];
    const value = LENGTHS[what];
    return sign === ">" ? (i) => value(core, i) > limit : (i) => value(core, i) < limit;
  }
  if (word === "critical") return (i) => core.is(i, CRITICAL);
  if (word === "dma") return (i) => core.is(i, TRANSFER);
  const [kind, rest] = word.includes(":") ? word.split(":", 2) : ["", word];
  if (kind === "line") return (i) => core.sites[core.site[i]][1] === Number(rest);
  const fits = core.calls.map((call) => saying(call, kind).includes(rest));
  return (i) => fits[core.call[i]];
}

const LENGTHS = {
  busy: (core, i) => core.kept[i] - core.begin[i],
  takes: (core, i) => core.end[i] - core.begin[i],
  wait: (core, i) => core.idleBefore(i),
};

function saying(call, kind) {
  const text = kind === "op" ? `${call.name} ${call.opcode}` : JSON.stringify(call);
  return text.toLowerCase();
}
