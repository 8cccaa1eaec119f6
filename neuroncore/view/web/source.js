// The kernel's source, with the cost of each line.

import { set, state } from "./state.js";
import { $, duration, el, percent, size, table } from "./text.js";

export class Source {
  /** Show the files with instructions, and the line of the error that ended the run, if any. */
  open(core, error) {
    Object.assign(this, { core, error, failed: null });
    this.rows = core.lines.map(() => null);
    const used = new Map(core.lines.map((line, index) => [`${line.file}:${line.line}`, index]));
    const files = [...new Set([...core.lines.map((line) => line.file), ...(error?.line ? [error.file] : [])])];
    $("text").replaceChildren(...files.flatMap((file) => this.text(file, used)));
  }

  text(file, used) {
    const { name, text } = this.core.files[file];
    const lines = text ? text.replace(/\n$/, "").split("\n") : [];
    const rows = lines.flatMap((line, n) => {
      const row = this.row(n + 1, line, used.get(`${file}:${n + 1}`));
      return this.error?.file === file && this.error.line === n + 1 ? this.marked(row) : [row];
    });
    const missing = text ? [] : [el("p", { class: "faint" }, "the file no longer exists")];
    return [el("h2", { title: name }, name.split(/[\\/]/).slice(-2).join("/")), ...missing, ...rows];
  }

  /** The line of the error, and its message below. */
  marked(row) {
    this.failed = row;
    row.classList.add("wrong");
    return [row, el("div", { class: "message" }, this.error.text.split("\n")[0].replace(/^.*?:\d+:\d+: /, ""))];
  }

  row(number, text, index) {
    const share = el("span", { class: "share" });
    const row = el("div", { class: index === undefined ? "row" : "row has", "data-line": number },
      el("span", { class: "number" }, number), share, el("span", { class: "text" }, text || " "));
    if (index === undefined) return row;
    this.rows[index] = row;
    const part = this.core.lines[index].critical_ns / (this.core.total_ns || 1);
    if (part > 0) {
      const bar = el("i");
      bar.style.width = `${Math.max(1, part * 60)}px`;
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
    const shown = state.line >= 0 ? state.line : here;
    $("facts").replaceChildren(...(shown < 0 ? this.help() : this.figures(core.lines[shown])));
    this.follow(this.rows[here >= 0 ? here : state.line] ?? this.failed);
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

  figures(line) {
    const { core } = this;
    const busy = line.busy_ns.map((ns, q) => [core.queues[q], ns]).filter(([, ns]) => ns > 0)
      .map(([name, ns]) => `${name} ${duration(ns)}`).join(", ");
    const rows = [
      ["line", `${core.files[line.file].name.split("/").at(-1)}:${line.line}`],
      ["instructions", String(line.count)],
      ["critical path", `${duration(line.critical_ns)}, ${percent(line.critical_ns / (core.total_ns || 1))}`],
      ["busy", busy || "nothing"],
    ];
    if (line.transfers) {
      const each = size(line.transfer_bytes / line.transfers);
      rows.push(["transfers", `${line.transfers} of ${each} on average, ${size(line.transfer_bytes)} in total`],
        ["DMA efficiency", `${percent(line.efficiency)} of the peak while a transfer is in flight, ${duration(line.flying_ns)}`]);
    }
    if (line.flops) {
      rows.push(["products", `${(line.flops / line.product_ns / 1e3).toPrecision(3)} TFLOPS, `
        + `${(line.flops / line.operand_bytes).toPrecision(3)} flops per byte of operands`]);
    }
    return [table([], rows)];
  }
}
