// The contents of tiles that the page has.

import { unpacked } from "./columns.js";
import { inflate } from "./inflate.js";
import { codes, decoder } from "./number.js";

/** The values of a core: for each operand, its decoded tile or null. */
export class Tiles {
  static async read(core, number) {
    const made = new Tiles(), { values } = core;
    Object.assign(made, { core, number, reason: values.reason, formats: values.formats ?? {}, known: new Map() });
    Object.assign(made, { served: values.served, options: values, decoded: new Map() });
    if (!values.of_operand) return made;
    (await unpacked(values.of_operand)).forEach((n, operand) => n && made.known.set(operand, values.tiles[n - 1]));
    return made;
  }

  /** Return the tile of an operand, from the document or an earlier request; undefined if unknown. */
  of(operand) {
    return this.known.get(operand);
  }

  /** Request the contents of a step's operands, if the page has a server. */
  async ask(step) {
    const { core } = this, start = core.start[step];
    if (!this.served || step < 0 || this.known.has(start)) return;
    const answer = await fetch(`values?core=${this.number}&step=${core.first + step}`);
    const found = await answer.json();
    if (found.reason) {
      this.reason = found.reason;
      return;
    }
    Object.assign(this.formats, found.formats);
    this.options = found;
    found.of_operand.forEach((n, operand) => n && this.known.set(start + operand, found.tiles[n - 1]));
  }

  format(tile) {
    return this.formats[tile.format];
  }

  /** Return all elements of a tile: codes, numbers, and flags of uninitialized elements. */
  async all(tile) {
    if (!this.decoded.has(tile)) this.decoded.set(tile, this.decode(tile));
    return this.decoded.get(tile);
  }

  async decode(tile) {
    const format = this.format(tile), found = codes(await inflate(tile.data), format);
    const packed = tile.lost ? new Uint8Array(await inflate(tile.lost)) : null;
    const lost = packed && Uint8Array.from(found, (_, n) => (packed[n >> 3] >> (n & 7)) & 1);
    return { codes: found, numbers: Float64Array.from(found, decoder(format)), lost };
  }

  /** Return the thumbnail of a tile: rows and columns of levels. */
  async small(tile) {
    const levels = new Uint8Array(await inflate(tile.small));
    const [rows, columns] = tile.shape.map((n) => Math.ceil(n / Math.ceil(n / 16)));
    return { rows, columns, levels };
  }
}
