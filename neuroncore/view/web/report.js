// The verdict, findings, what-ifs, and all figures.

import { set } from "./state.js";
import { $, duration, el, percent, plural, size, table } from "./text.js";

/** Show the outcome of the run: right, wrong, or the error that ended it. */
export function drawOutcome(outcome) {
  $("outcome").hidden = !outcome;
  document.body.classList.toggle("failed", outcome?.kind === "failed");
  if (!outcome) return;
  const [first, ...others] = outcome.text.split("\n");
  $("outcome").className = outcome.kind;
  $("outcome").replaceChildren(el("strong", {}, `${outcome.kind}: ${first}`),
    ...(others.length ? [el("pre", {}, others.join("\n"))] : []));
}

export function drawHead(core, cores, { version, served, error }) {
  document.title = `${core.kernel} on ${core.machine}`;
  drawOutcome(error ?? core.outcome);
  const part = core.outcome?.kind === "failed" ? ", up to the error" : "";
  $("verdict").textContent = `${core.kernel} on ${core.machine}${part}: ${core.verdict.text}`;
  // an arrow of one letter does not break at the end of a line
  $("sentence").textContent = (core.sentence ?? "").replaceAll("->", "→");
  const shares = Object.entries(core.busy_share).filter(([, share]) => share > 0.005)
    .map(([name, share]) => `${name} ${(100 * share).toFixed(0)}%`);
  const parts = [core.capture ? core.how : `an estimate, ${core.order}`, plural(core.instructions, "instruction"), `busy: ${shares.join(", ")}`,
    core.coverage && `covers ${core.coverage}`, `neuroncore ${version}`];
  $("subtitle").textContent = parts.filter(Boolean).join("   ·   ");
  $("window").replaceChildren(...(core.count < core.instructions ? drawWindow(core, served) : []));
  $("which").hidden = cores.length < 2;
  $("dma").parentElement.hidden = Boolean(core.capture); // a trace does not say which engines move a transfer
  $("core").replaceChildren(...cores.map((each, n) => el("option", { value: n },
    `${each.kernel}${each.ranks > 1 ? `, rank ${each.rank}` : ""}${each.cores > 1 ? `, core ${each.core}` : ""}${sameName(cores, n)}`)));
}

/** Return a text about the part of the run on the page. With a server, it has links to the other parts. */
function drawWindow(core, served) {
  const last = core.first + core.count - 1;
  const said = `instructions ${core.first.toLocaleString("en")} to ${last.toLocaleString("en")} of `
    + `${core.instructions.toLocaleString("en")}`;
  if (!served) return [`${said}; use --window A:B to show others, or --serve to show all`];
  const link = (text, first) => {
    const from = Math.max(0, Math.min(first, core.instructions - core.count));
    return from === core.first ? "" : el("a", { href: `?window=${from}:${from + core.count}` }, text);
  };
  return [link("\u25c0 earlier ", core.first - core.count), said, link(" later \u25b6", last + 1)];
}

function sameName(cores, n) {
  const name = ({ kernel, rank, core }) => [kernel, rank, core].join();
  const alike = cores.filter((each) => name(each) === name(cores[n]));
  return alike.length > 1 ? `, launch ${alike.indexOf(cores[n])}` : "";
}

export function drawFindings(pane, core) {
  const rows = core.findings.map((found) => [found.code, where(core, found), found.message]);
  pane.replaceChildren(rows.length ? table(["code", "line", ""], rows)
    : el("p", { class: "faint" }, "No findings."));
}

/** Show a table with the error that each line introduces into the results. */
export function drawPrecision(pane, core) {
  const { results, lines } = core.precision, files = core.files.map((file) => file.name);
  const figure = (value) => (value === null ? "infinite" : Number(value).toPrecision(3));
  const rows = lines.map((line) => {
    const [, file, number] = /^(.*):(\d+)$/.exec(line.place), bar = el("span", { class: "bar" });
    bar.style.width = `${120 * Math.min(1, line.share)}px`;
    return [where(core, { file: files.indexOf(file), line: Number(number) }), bar, percent(line.share),
      figure(line.ulps_rms), figure(line.ulps_max), el("code", {}, line.text)];
  });
  pane.replaceChildren(
    ...results.map((result, n) => el("div", {}, `result ${n}: relative L2 error ${figure(result.rel_l2)} against float64`)),
    el("p", { class: "faint" }, "The error that each line introduces: its share of the error of the results (an estimate), and its size in units in the last place (ulps)."),
    table(["line", "", "share", "ulps, rms", "ulps, max", ""], rows, [2, 3, 4]));
}

function where(core, found) {
  if (found.line === undefined || !core.files[found.file]) return "";
  const index = core.lines.findIndex((line) => line.file === found.file && line.line === found.line);
  const text = `${core.files[found.file].name.split("/").at(-1)}:${found.line}`;
  return index < 0 ? text : el("button", { class: "link", onclick: () => set({ line: index }) }, text);
}

export function drawWhatIf(pane, core) {
  const signed = (gain) => (Math.abs(gain) < 5e-4 ? percent(0) : `${gain > 0 ? "\u2212" : "+"}${percent(Math.abs(gain))}`);
  const rows = core.what_if.map((one) => {
    const bar = el("span", { class: "bar" });
    bar.style.width = `${160 * Math.max(0, one.gain)}px`;
    return [one.change, duration(one.ns), signed(one.gain), bar, one.bound ?? ""];
  });
  pane.replaceChildren(el("p", { class: "faint" },
    "The same instructions, scheduled again with one change.", core.covers ? ` (${core.covers}.)` : ""),
    table(["if", "estimate", "change", "", "then bound by"], rows, [1, 2]));
}

export function drawFigures(pane, core) {
  const rows = (entries) => entries.map(([name, value]) => [el("code", {}, name), el("span", { title: String(value) }, written(name, value))]);
  const figures = Object.entries(core.figures).filter(([name]) => name !== "opcodes");
  const half = Math.ceil(figures.length / 2);
  pane.replaceChildren(el("div", { class: "sides" },
    table(["figure", ""], rows(figures.slice(0, half)), [1]),
    table(["figure", ""], rows(figures.slice(half)), [1]),
    table(["opcode", "count"], rows(Object.entries(core.figures.opcodes)), [1]),
    table(["critical path", ""], Object.entries(core.path_share ?? {}).map(([name, share]) => [name, percent(share)]), [1])));
}

/** Return a figure as text, in the unit that its name implies. Times are in seconds. */
function written(name, value) {
  if (typeof value !== "number") return String(value);
  if (/_percent$/.test(name)) return percent(value);
  if (/_time(_p\d+)?$/.test(name)) return duration(1e9 * value);
  if (/_bytes(_|$)/.test(name)) return size(value);
  return Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(4)));
}
