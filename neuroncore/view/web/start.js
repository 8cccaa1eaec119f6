// Starts the page, whose other modules are compressed.

import { inflate } from "./inflate.js";

async function start() {
  const script = document.createElement("script"), content = await inflate(document.getElementById("script").textContent);
  script.textContent = new TextDecoder().decode(content);
  document.head.append(script); // runs it; the policy has its hash
  return window.ready; // which it has set
}

window.ready = start();
