// Shows a lecture as slides, one section at a time. Keys: arrows move, n shows the notes, Escape ends.
"use strict";

function slides() {
  const home = document.querySelector(".bd-article > section");
  if (!home || !location.pathname.includes("/lectures/")) return;
  const sections = [...home.querySelectorAll(":scope > section")];
  const start = [...home.children].filter((child) => child.tagName !== "SECTION");
  const root = document.documentElement;
  let now = -1; // -1 is the title

  const show = (to) => {
    now = Math.max(-1, Math.min(to, sections.length - 1));
    const on = root.classList.contains("slides");
    for (const child of start) child.classList.toggle("off-slide", on && now >= 0);
    sections.forEach((section, n) => section.classList.toggle("off-slide", on && n !== now));
    window.dispatchEvent(new Event("resize"));
    window.scrollTo(0, 0);
  };
  const toggle = (on) => {
    root.classList.toggle("slides", on);
    show(on ? -1 : now);
  };
  const button = document.createElement("button");
  button.className = "btn btn-sm btn-outline-secondary slides-button";
  button.textContent = "Slides";
  button.title = "arrow keys move, n shows the notes for the speaker, Escape ends";
  button.onclick = () => toggle(true);
  home.prepend(button);
  start.push(button);

  addEventListener("keydown", (event) => {
    if (!root.classList.contains("slides")) return;
    if (["ArrowRight", "PageDown", " "].includes(event.key)) show(now + 1);
    else if (["ArrowLeft", "PageUp"].includes(event.key)) show(now - 1);
    else if (event.key === "n" || event.key === "?") root.classList.toggle("spoken");
    else if (event.key === "Escape") toggle(false);
    else return;
    event.preventDefault();
  });
}

addEventListener("DOMContentLoaded", slides);
