// Highlights the syntax of Python, line by line.

import { el } from "./text.js";

const KEYWORDS = new Set(("False None True and as assert async await break class continue def del elif else except "
  + "finally for from global if import in is lambda nonlocal not or pass raise return try while with yield").split(" "));
const TOKEN = /(#.*)|([rbfuRBFU]{0,2}("""|'''))|([rbfuRBFU]{0,2}(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?))|(\b\d[\w.]*)|([A-Za-z_]\w*)|(@[\w.]+)/g;

/** Return, for each line, a list of elements and texts. */
export function colored(lines) {
  let open = ""; // the quotes of a text that goes on in the next line
  return lines.map((line) => {
    const pieces = [];
    let at = 0;
    const add = (text, kind) => text && pieces.push(kind ? el("span", { class: kind }, text) : text);
    const rest = () => { // of a text that began earlier
      const end = line.indexOf(open, at), until = end < 0 ? line.length : end + open.length;
      add(line.slice(at, until), "string");
      at = until;
      if (end >= 0) open = "";
    };
    if (open) rest();
    while (at < line.length && !open) {
      TOKEN.lastIndex = at;
      const found = TOKEN.exec(line);
      if (!found) break;
      add(line.slice(at, found.index));
      at = TOKEN.lastIndex;
      const [whole, remark, triple, quotes, string, number, word, mark] = found;
      const kind = remark ? "remark" : triple || string ? "string" : number ? "digits"
        : mark || KEYWORDS.has(word) ? "keyword" : "";
      add(whole, kind);
      if (triple) [open] = [quotes], rest();
    }
    add(line.slice(at), open ? "string" : "");
    return pieces;
  });
}
