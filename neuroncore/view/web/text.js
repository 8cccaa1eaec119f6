// Texts of numbers with units (as in neuroncore/base/units.py), and elements of the page.

function digits(value) {
  return value < 999.5 ? String(Number(value.toPrecision(3))) : value.toFixed(0);
}

/** Return a time such as "12.3 us", with three significant digits or all digits before the point. */
export function duration(ns) {
  if (ns < 0) return `-${duration(-ns)}`;
  for (const [unit, scale] of [["ns", 1], ["us", 1e3], ["ms", 1e6]]) {
    if (ns < 1000 * scale) return `${digits(ns / scale)} ${unit}`;
  }
  return `${digits(ns / 1e9)} s`;
}

/** Return a moment with its unit, and with enough digits to show differences of `apart` ns. */
export function moment(ns, apart = 0.1) {
  const [unit, scale] = [["ns", 1], ["us", 1e3], ["ms", 1e6]].find(([, each]) => ns < 1000 * each) ?? ["s", 1e9];
  const digits = Math.max(0, Math.ceil(Math.log10(scale / apart) - 1e-9));
  return `${(ns / scale).toFixed(digits)} ${unit}`;
}

/** Return a size such as "1.5 MiB", with three significant digits or all digits before the point. */
export function size(count) {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (count < 1024) return `${digits(count)} ${unit}`;
    count /= 1024;
  }
  return `${digits(count)} GiB`;
}

export function plural(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

export function percent(share) {
  return `${(100 * share).toFixed(1)}%`;
}

/** Return a new element with attributes, and with children that are elements or text. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function $(id) {
  return document.getElementById(id);
}

/** Return a table of rows of texts and elements. The columns `numbers` align to the right. */
export function table(head, rows, numbers = []) {
  const cell = (kind) => (content, column) =>
    el(kind, numbers.includes(column) ? { class: "n" } : {}, content);
  return el("table", {},
    el("thead", {}, el("tr", {}, ...head.map(cell("th")))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map(cell("td"))))));
}

const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** Let arrow keys choose a cell of a canvas, by row and column. The canvas keeps the focus when it is drawn
 * again. `at` is the chosen cell, and `choose` is called with the next one. */
export function byArrows(canvas, [rows, columns], at, choose) {
  canvas.tabIndex = 0;
  canvas.addEventListener("keydown", (event) => {
    const by = ARROWS[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const within = (n, count) => Math.min(Math.max(n, 0), count - 1);
    choose([within(at[0] + by[0], rows), within(at[1] + by[1], columns)]);
  });
  if (document.activeElement?.id === canvas.id) queueMicrotask(() => canvas.focus({ preventScroll: true }));
}
