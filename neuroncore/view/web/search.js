// The search box, for texts such as "matmul line:102 wait>500ns critical". All words must match.

import { CRITICAL, TRANSFER } from "./model.js";

const UNITS = { ns: 1, us: 1e3, ms: 1e6, s: 1e9 };
const LENGTH = /^(wait|busy|takes)([<>])([\d.]+)(ns|us|ms|s)?$/;

export const WORDS = "use op:NAME, line:N, wait>500ns, busy<1us, takes>2us, dma, critical, or any text of a call";

/** Return a test of instructions for a search text, and the words of the text that have no meaning. */
export function matching(core, text) {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const tests = words.map((word) => test(core, word));
  return { fits: (i) => tests.every((one) => one?.(i)), unknown: words.filter((_, n) => !tests[n]) };
}

/** Return a test for one word; undefined if the word has no meaning. */
function test(core, word) {
  const length = LENGTH.exec(word);
  if (length) {
    const [, what, sign, number, unit] = length, limit = Number(number) * UNITS[unit ?? "ns"];
    const value = LENGTHS[what];
    return sign === ">" ? (i) => value(core, i) > limit : (i) => value(core, i) < limit;
  }
  if (word === "critical") return (i) => core.is(i, CRITICAL);
  if (word === "dma") return (i) => core.is(i, TRANSFER);
  if (/^line:\d+$/.test(word)) return (i) => core.sites[core.site[i]][1] === Number(word.slice(5));
  const named = word.startsWith("op:");
  if (!named && /[:<>]/.test(word)) return undefined;
  const fits = core.calls.map((call) => saying(call, named).includes(named ? word.slice(3) : word));
  return (i) => fits[core.call[i]];
}

const LENGTHS = {
  busy: (core, i) => core.kept[i] - core.begin[i],
  takes: (core, i) => core.end[i] - core.begin[i],
  wait: (core, i) => core.idleBefore(i),
};

function saying(call, named) {
  const text = named ? `${call.name} ${call.opcode}` : JSON.stringify(call);
  return text.toLowerCase();
}
