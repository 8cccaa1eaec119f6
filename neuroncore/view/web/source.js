// The kernel's source, with the cost of each line.

import { colored } from "./python.js";
import { set, state } from "./state.js";
import { hottest } from "./summary.js";
import { $, duration, el, percent, size } from "./text.js";

/** Return a link that opens a line in VS Code, for a file with an absolute path. */
export function editorLink(name, line) {
  const path = name.replaceAll("\\", "/");
  if (!/^(\/|[A-Za-z]:\/)/.test(path)) return "";
  return el("a", { href: `vscode://file/${encodeURI(path.replace(/^\//, ""))}:${line}` }, "open in VS Code");
}

export class Source {
  constructor() {
    $("text").addEventListener("keydown", (event) => this.keyed(event));
    $("map").addEventListener("click", (event) => {
      const box = $("text"), share = event.offsetY / $("map").clientHeight;
      box.scrollTop = share * box.scrollHeight - box.clientHeight / 2;
    });
  }

  /** Show the files with instructions, and the line of the error that ended the run, if any. */
  open(core, error) {
    Object.assign(this, { core, error, failed: null, costliest: core.lines.length ? hottest(core)[0]?.index ?? -1 : -1 });
    this.rows = core.lines.map(() => null);
    const used = new Map(core.lines.map((line, index) => [`${line.file}:${line.line}`, index]));
    const files = [...new Set([...core.lines.map((line) => line.file), ...(error?.line ? [error.file] : [])])];
    $("text").replaceChildren(...files.flatMap((file) => this.text(file, used)));
    this.drawMap();
  }

  /** Mark the lines of the critical path, and the error, on the strip at the right. */
  drawMap() {
    const all = [...$("text").children], total = this.core.total_ns || 1, marks = [];
    const mark = (row, share, kind) => {
      const made = el("i", { class: kind });
      Object.assign(made.style, { top: `${(100 * all.indexOf(row)) / all.length}%`, height: `${100 / all.length}%`, opacity: share });
      marks.push(made);
    };
    this.rows.forEach((row, index) => {
      const share = this.core.lines[index].critical_ns / total;
      if (row && share > 0.005) mark(row, 0.3 + 0.7 * share, "");
    });
    if (this.failed) mark(this.failed, 1, "wrong");
    $("map").replaceChildren(...marks);
  }

  /** Let the up and down keys select the previous and the next line with instructions. */
  keyed(event) {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const own = this.rows.flatMap((row, index) => (row ? [index] : [])), at = own.indexOf(state.line);
    const next = own[at < 0 ? own.indexOf(this.costliest) : Math.min(Math.max(at + by, 0), own.length - 1)];
    if (next !== undefined) set({ line: next });
  }

  text(file, used) {
    const { name, text } = this.core.files[file];
    const lines = text ? text.replace(/\n$/, "").split("\n") : [];
    const pieces = colored(lines.map((line) => line.trimStart()));
    const rows = lines.flatMap((line, n) => {
      const row = this.row(n + 1, line, pieces[n], used.get(`${file}:${n + 1}`));
      return this.error?.file === file && this.error.line === n + 1 ? this.marked(row) : [row];
    });
    const missing = text ? [] : [el("p", { class: "faint" }, "the file no longer exists")];
    return [el("h2", { title: name }, name.split(/[\/]/).slice(-2).join("/")), ...missing, ...rows];
  }

  /** Return the line of the error, with the message below the line. */
  marked(row) {
    this.failed = row;
    row.classList.add("wrong");
    return [row, el("div", { class: "message" }, this.error.text.split("\n")[0].replace(/^.*?:\d+:\d+: /, ""))];
  }

  row(number, text, pieces, index) {
    const indent = text.length - text.trimStart().length, share = el("span", { class: "share" });
    const body = el("span", { class: "text" }, el("span", { class: "indent" }, text.slice(0, indent)), ...(text ? pieces : [" "]));
    body.style.setProperty("--indent", indent);
    const row = el("div", { class: index === undefined ? "row" : "row has", "data-line": number },
      el("span", { class: "number" }, number), share, body);
    if (index === undefined) return row;
    this.rows[index] = row;
    const part = this.core.lines[index].critical_ns / (this.core.total_ns || 1);
    if (part > 0) {
      const bar = el("i");
      bar.style.width = `${100 * part}%`;
      share.append(bar, percent(part));
    }
    row.setAttribute("data-index", index);
    row.addEventListener("click", () => set({ line: state.line === index ? -1 : index }));
    return row;
  }

  draw() {
    const { core } = this, here = state.step < 0 ? -1 : core.lineOf(state.step);
    this.rows.forEach((row, index) => {
      row?.classList.toggle("on", index === here);
      row?.classList.toggle("chosen", index === state.line);
    });
    const shown = state.line >= 0 ? state.line : here >= 0 ? here : this.costliest;
    $("facts").replaceChildren(...(shown < 0 ? this.help() : this.figures(core.lines[shown], shown)));
    this.follow(this.rows[here >= 0 ? here : state.line] ?? this.failed ?? this.rows[this.costliest]);
  }

  /** Scroll to the line of the step if the source has its own scroll bar. */
  follow(row) {
    const box = $("text");
    if (!row || box.scrollHeight <= box.clientHeight) return;
    const top = row.offsetTop;
    const inside = top > box.scrollTop + 60 && top < box.scrollTop + box.clientHeight - 40;
    if (!inside) box.scrollTop = top - box.clientHeight / 2;
  }

  help() {
    return [el("span", { class: "faint" },
      "Shares of the critical path. Click a line to see its instructions.")];
  }

  figures(line, index) {
    const { core } = this, costliest = index === this.costliest ? ", the most expensive line" : "";
    const busy = line.busy_ns.map((ns, q) => [core.queues[q], ns]).filter(([, ns]) => ns > 0)
      .map(([name, ns]) => `${duration(ns)} on ${name}`).join(", ");
    const rows = [
      ["line", `${core.files[line.file].name.split(/[\/]/).at(-1)}:${line.line}${costliest}`],
      ["instructions", line.count.toLocaleString("en")],
      ["critical path", `${duration(line.critical_ns)}, ${percent(line.critical_ns / (core.total_ns || 1))}`],
      ["busy", busy || "nothing"],
    ];
    if (line.transfers) {
      const each = size(line.transfer_bytes / line.transfers);
      rows.push(["transfers", `${line.transfers.toLocaleString("en")} of ${each} on average, ${size(line.transfer_bytes)} in total`],
        ["DMA efficiency", `${percent(line.efficiency)} of the peak bandwidth during the ${duration(line.flying_ns)} in which a transfer is in flight`]);
    }
    if (line.flops) {
      rows.push(["products", `${(line.flops / line.product_ns / 1e3).toPrecision(3)} TFLOPS, `
        + `${(line.flops / line.operand_bytes).toPrecision(3)} flops per byte of operands`]);
    }
    return [...rows.map(([name, said]) => el("span", {}, el("b", {}, name), ` ${said}`)),
      editorLink(core.files[line.file].name, line.line)];
  }
}
