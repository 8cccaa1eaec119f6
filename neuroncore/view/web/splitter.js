// Borders between panes, moved by the pointer or by arrow keys.

import { $ } from "./text.js";

const STEP = 3; // percent of the window that a key moves a border

/** Let a border set a property of the page's style, in percent of the window. */
function border(id, property, unit, from, percentAt) {
  let value = from;
  const move = (to) => {
    value = Math.min(Math.max(to, 10), 85);
    document.documentElement.style.setProperty(property, `${value}${unit}`);
    $(id).setAttribute("aria-valuenow", Math.round(value));
  };
  $(id).setAttribute("aria-valuenow", from);
  $(id).addEventListener("pointerdown", (event) => $(id).setPointerCapture(event.pointerId));
  $(id).addEventListener("pointermove", (event) => $(id).hasPointerCapture(event.pointerId) && move(percentAt(event)));
  $(id).addEventListener("keydown", (event) => {
    const by = { ArrowLeft: STEP, ArrowDown: STEP, ArrowRight: -STEP, ArrowUp: -STEP }[event.key];
    if (by === undefined) return;
    event.stopPropagation();
    event.preventDefault();
    move(value + by);
  });
}

export function startBorders() {
  border("along", "--source", "%", 38, (event) => 100 - (100 * event.clientX) / window.innerWidth);
  border("across", "--timeline", "vh", 36,
    (event) => (100 * (event.clientY - $("timeline").getBoundingClientRect().top)) / window.innerHeight);
}
