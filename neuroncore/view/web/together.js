// Several cores under each other on one scale of time: launches, ranks, or the two sides of a
// comparison. A collective is drawn as a line from each rank's arrival to the last rank's arrival.

import { Board, ink, type } from "./canvas.js";
import { Core, CRITICAL, lowerBound, sorted, TRANSFER } from "./model.js";
import { set } from "./state.js";
import { duration, el, percent, plural, table } from "./text.js";

const MOST = 64; // cores on the picture
const MANY = 4; // cores with a row for each engine; more have one row each
const HIGH = 15, GAP = 18, TOP = 16; // pixels
const SIDES = ["old", "new"];

/** Return the rows of a core: its engines and its transfers, or one row with all instructions. */
function rowsOf(core, brief) {
  const all = [...core.byTime], row = (name, items, until) => {
    const order = sorted(Int32Array.from(items), core.begin, core.tick_ns);
    return { name, items: order, since: core.begin, until };
  };
  if (brief) return [row("", all.filter((i) => !core.is(i, TRANSFER)), core.kept)];
  const engines = core.rows.queues.map((name, q) => row(name, all.filter((i) => core.queue[i] === q), core.kept));
  return [...engines, row("DMA", all.filter((i) => core.is(i, TRANSFER)), core.end)].filter(({ items }) => items.length);
}

export class Together {
  constructor(pane) {
    this.said = el("div", {});
    pane.append(this.said);
    this.board = new Board(pane, 100, "cores under each other on one scale");
    this.board.draw = () => this.cores && this.draw();
    this.board.span = () => [0, this.total];
    this.board.canvas.addEventListener("click", (event) => this.clicked(event.offsetX, event.offsetY));
    this.below = el("div", {});
    pane.append(this.below);
  }

  /** Read the cores of the document. This is done once. */
  async open(cores, made, opened) {
    this.made = made;
    const numbers = made.sides ? made.sides.cores : [...cores.keys()].slice(0, MOST);
    const read = numbers.map(async (n) => [n, (opened[n] ??= await Core.read(cores[n]))]);
    this.cores = await Promise.all(read);
    this.total = Math.max(1, ...this.cores.map(([, core]) => core.total_ns));
    const brief = this.cores.length > MANY;
    this.bands = this.cores.map(([number, core], at) => ({ number, core, name: this.named(core, at), rows: rowsOf(core, brief) }));
    let y = TOP;
    for (const band of this.bands) {
      band.y = y + GAP;
      y = band.y + band.rows.length * HIGH;
    }
    this.height = y + 6;
  }

  named(core, at) {
    const side = this.made.sides ? `${SIDES[at]}: ` : "";
    const rank = core.ranks > 1 ? `, rank ${core.rank}` : "";
    return `${side}${core.kernel}${rank}${core.cores > 1 ? `, core ${core.core}` : ""}, ${duration(core.total_ns)}`
      + (core.capture ? `, ${core.how}` : "");
  }

  async draw() {
    const { board } = this, scale = type();
    if (!board.begin(this.height * scale)) return;
    board.axis();
    for (const band of this.bands) {
      board.text(band.name, 4, (band.y - 5) * scale, ink("ink"), board.width - 8);
      band.rows.forEach((row, n) => this.drawRow(band, row, (band.y + n * HIGH) * scale, HIGH * scale));
    }
    this.drawMeetings(scale);
    this.tell();
  }

  drawRow({ core }, { name, items, since, until }, y, high) {
    const { board } = this;
    if (name) board.text(name, 4, y + high - 4, ink("faint"), board.left - 8);
    board.rect(board.left, y + high - 1, board.width - board.left, 1, ink("rule"));
    const places = this.made.sides?.lines ?? [];
    const changedSites = core.sites.map(([file, line]) => places.includes(`${this.made.files[file].name.split(/[\/]/).at(-1)}:${line}`));
    let at = 0;
    while (at < items.length) {
      const i = items[at], x = board.x(since[i]), width = (until[i] - since[i]) * board.perNs;
      const changed = changedSites[core.site[i]];
      board.rect(x, y + 1, Math.max(1, width - (width > 3 ? 1 : 0)), high - 3,
        ink(changed ? "p3" : core.is(i, CRITICAL) ? "critical" : "other"));
      const next = board.ns(Math.floor(Math.max(x + 1, x + width)));
      at = width >= 1 ? at + 1 : Math.max(at + 1, lowerBound(items, at, items.length, next, since));
    }
  }

  /** Draw a collective: for each rank, its arrival, its wait, and the end. */
  drawMeetings(scale) {
    const { board } = this;
    for (const { ranks, arrived, end, operation } of this.made.meetings ?? []) {
      const bands = ranks.map((rank) => this.bands.find(({ core }) => (core.rank ?? 0) === rank));
      const last = Math.max(...arrived), own = bands.filter(Boolean);
      if (own.length < 2) continue;
      const [low, high] = [own[0].y * scale, (own.at(-1).y + own.at(-1).rows.length * HIGH) * scale];
      board.context.globalAlpha = 0.35;
      board.rect(board.x(last), low, Math.max(2, (end - last) * board.perNs), high - low, ink("accent"));
      board.context.globalAlpha = 1;
      bands.forEach((band, n) => band && board.rect(board.x(arrived[n]), (band.y + (band.rows.length * HIGH) / 2 - 2) * scale,
        Math.max(2, (last - arrived[n]) * board.perNs), 4, ink(arrived[n] === last ? "critical" : "p3")));
      const room = (end - last) * board.perNs - 4;
      board.text(operation, board.x(last) + 2, low + 11 * scale, ink("ink"), room);
    }
  }

  /** Show the sentences above the picture, and the tables below it. */
  tell() {
    const { sides, meetings } = this.made;
    const several = this.made.cores.length > MOST ? ` The first ${MOST} of ${this.made.cores.length}.` : "";
    this.said.replaceChildren(...(sides ? sides.text.map((line) => el("p", {}, line)) : []),
      el("p", { class: "faint" }, `Orange: on the critical path of its core.${sides ? " Pink: a line that is not on the critical path of the other side." : ""}`
        + `${meetings?.length ? " Blue: a collective; pink bars: ranks that wait for the last rank, whose arrival is orange." : ""}${several} Click a row to open its core.`));
    const rows = (sides?.moved ?? []).map((one) => [el("code", {}, one.text), one.place, ...[one.old, one.new].map((share) => (share === null ? "none" : percent(share)))]);
    const waits = (meetings ?? []).map((one) => {
      const wait = Math.max(...one.waited), first = one.ranks[one.waited.indexOf(wait)];
      return [one.operation, plural(one.ranks.length, "rank"), `rank ${one.last}`, `rank ${first}, ${duration(wait)}`];
    });
    this.below.replaceChildren(
      rows.length ? table(["line", "", "share of old critical path", "share of new critical path"], rows, [2, 3]) : "",
      waits.length ? table(["collective", "ranks", "last to arrive", "longest wait"], waits) : "");
  }

  clicked(x, y) {
    const band = this.bands.find(({ y: top, rows }) => y / type() >= top - GAP && y / type() < top + rows.length * HIGH);
    if (band) set({ core: band.number, pane: "summary" });
  }
}
