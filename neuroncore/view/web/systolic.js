// A product in the array: the position of each element in each cycle, and the sums.

const HIGH = 0xfffff000; // sign, exponent and the upper 12 bits of a float32
const word = new DataView(new ArrayBuffer(4));

function high(value) {
  word.setFloat32(0, value);
  word.setUint32(0, word.getUint32(0) & HIGH);
  return word.getFloat32(0);
}

const low = (value) => Math.fround(value - high(value));
const whole = (value) => value;

// The halves that each pass of float32 operands multiplies; PSUM adds them up.
const PASSES = [["low x low", low, low], ["low x high", low, high], ["high x low", high, low], ["high x high", high, high]];
const ONE_PASS = [["", whole, whole]];

/** One product. It uses `rows` by `columns` cells. In each pass, `count` moving columns stream through.
 *
 * A cell multiplies its weight by the input, adds the sum from above, and passes the result down
 * one cycle later. The sums are float32 in row order. They equal the run's sums bit for bit if
 * the run adds in that order too. The final contents of PSUM come from the document. */
export class Systolic {
  constructor({ rows, columns, group }, weights, moving, count, fourPasses) {
    Object.assign(this, { rows, columns, group, weights, moving, count });
    this.passes = fourPasses ? PASSES : ONE_PASS;
    this.loading = rows; // cycles, with a row of weights in each
    this.streaming = count * this.passes.length + rows + columns - 1;
    this.cycles = this.loading + this.streaming;
  }

  /** Return the pass and the moving column that a cell has in a cycle, or null. */
  at(cycle, row, column) {
    const since = cycle - this.loading - row - column;
    if (since < 0 || since >= this.count * this.passes.length) return null;
    return { pass: Math.floor(since / this.count), moving: since % this.count };
  }

  weight(row, column, part = 0) {
    return this.weights[(row * this.group + part) * this.columns + column];
  }

  /** Return an element of the moving matrix, which is the identity for a transpose. */
  passing(row, moving, part = 0) {
    if (!this.moving) return row === moving ? 1 : 0;
    return this.moving[(row * this.group + part) * this.count + moving];
  }

  /** Return the sum that a cell passes down. */
  sum(row, column, moving, pass) {
    const [, left, right] = this.passes[pass];
    let total = 0;
    for (let k = 0; k <= row; k++) {
      let made = 0;
      for (let part = 0; part < this.group; part++) {
        const one = left(this.weight(k, column, part)) * right(this.passing(k, moving, part));
        made = part ? Math.fround(made + one) : one;
      }
      total = Math.fround(total + made);
    }
    return total;
  }

  /** Return the sum of all passes. */
  result(column, moving) {
    return this.passes.reduce((total, _, pass) =>
      Math.fround(total + this.sum(this.rows - 1, column, moving, pass)), 0);
  }
}
