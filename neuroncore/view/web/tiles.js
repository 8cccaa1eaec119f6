// What tiles held, as far as the page has it.

import { inflate, unpacked } from "./columns.js";
import { codes, decoder } from "./number.js";

/** The values of a core: of each operand a tile, or null, once they are decoded. */
export class Tiles {
  static async read({ values }) {
    const made = new Tiles();
    made.reason = values.reason;
    made.given = values;
    made.ofOperand = values.reason ? [] : await unpacked(values.of_operand);
    made.decoded = new Map();
    return made;
  }

  /** What the document says of an operand's tile; undefined if it says nothing. */
  of(operand) {
    const number = this.ofOperand[operand];
    return number ? this.given.tiles[number - 1] : undefined;
  }

  format(tile) {
    return this.given.formats[tile.format];
  }

  /** All elements of a tile: codes, numbers, and whether each was never written. */
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

  /** The small picture of a tile: rows and columns, and a level of each. */
  async small(tile) {
    const levels = new Uint8Array(await inflate(tile.small));
    const [rows, columns] = tile.shape.map((n) => Math.ceil(n / Math.ceil(n / 16)));
    return { rows, columns, levels };
  }
}
