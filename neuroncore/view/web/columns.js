// Columns of integers, written by neuroncore/view/columns.py.

import { inflate } from "./inflate.js";

const KINDS = {
  u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, u8: BigUint64Array,
  i1: Int8Array, i2: Int16Array, i4: Int32Array, i8: BigInt64Array,
};

/** Return a packed column as an array of numbers. */
export async function unpacked(column) {
  const content = await inflate(column.data);
  let values = column.planes ? joined(new Uint8Array(content), column) : new KINDS[column.type](content);
  if (column.type.endsWith("8")) values = Float64Array.from(values, Number);
  if (!column.sums) return values;
  const sums = new Float64Array(values.length);
  for (let i = 0, sum = 0; i < values.length; i++) sums[i] = sum += values[i];
  return sums;
}

/** Return a column whose packed integers are relative to the previous value of the same call. */
export function summedByCall(values, call) {
  const found = new Float64Array(values.length), last = new Map();
  for (let i = 0; i < values.length; i++) {
    found[i] = (last.get(call[i]) ?? 0) + signed(values[i]);
    last.set(call[i], found[i]);
  }
  return found;
}

/** Return integers whose bytes are in planes: the first bytes of all, the second bytes of all, and so on. */
function joined(bytes, { type, planes }) {
  const count = bytes.length / planes, values = new KINDS[type](count);
  for (let i = 0; i < count; i++) {
    let value = 0;
    for (let k = planes; k--;) value = value * 256 + bytes[k * count + i];
    values[i] = type[0] === "i" ? signed(value) : value;
  }
  return values;
}

/** Return the value of a compressed JSON text. */
export async function parsed(text) {
  return JSON.parse(new TextDecoder().decode(await inflate(text)));
}

/** Return the calls. The text of a call is the text of its form, with the call's numbers in the holes. */
export async function filled(text) {
  const { forms, of } = await parsed(text), next = forms.map(() => 0);
  for (const form of forms) form.columns = form.columns.map((column, _, all) => (Array.isArray(column) ? column : all[column]));
  const each = of.map((form) => {
    const { text, columns } = forms[form], row = next[form]++;
    let hole = 0;
    return text.replace(/\n/g, () => columns[hole++][row]);
  });
  return JSON.parse(`[${each}]`);
}

/** Return the signed integer for an unsigned one: 0, 1, 2, 3, 4 become 0, -1, 1, -2, 2. */
export function signed(value) {
  return value % 2 ? -(value + 1) / 2 : value / 2;
}
