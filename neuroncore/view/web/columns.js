// Columns of integers, written by neuroncore/view/columns.py.

import { inflate } from "./inflate.js";

const KINDS = {
  u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, u8: BigUint64Array,
  i1: Int8Array, i2: Int16Array, i4: Int32Array, i8: BigInt64Array,
};

/** A column as an array of numbers. */
export async function unpacked(column) {
  const content = await inflate(column.data);
  let values = column.planes ? joined(new Uint8Array(content), column) : new KINDS[column.type](content);
  if (column.type.endsWith("8")) values = Float64Array.from(values, Number);
  if (!column.sums) return values;
  const sums = new Float64Array(values.length);
  for (let i = 0, sum = 0; i < values.length; i++) sums[i] = sum += values[i];
  return sums;
}

/** A column that has integers relative to the previous ones of the same call. */
export function summedByCall(values, call) {
  const found = new Float64Array(values.length), last = new Map();
  for (let i = 0; i < values.length; i++) {
    found[i] = (last.get(call[i]) ?? 0) + signed(values[i]);
    last.set(call[i], found[i]);
  }
  return found;
}

/** Integers whose bytes are in planes: all first ones, all second ones, and so on. */
function joined(bytes, { type, planes }) {
  const count = bytes.length / planes, values = new KINDS[type](count);
  for (let i = 0; i < count; i++) {
    let value = 0;
    for (let k = planes; k--;) value = value * 256 + bytes[k * count + i];
    values[i] = type[0] === "i" ? signed(value) : value;
  }
  return values;
}

/** The value of a compressed JSON text. */
export async function parsed(text) {
  return JSON.parse(new TextDecoder().decode(await inflate(text)));
}

/** The calls, whose numbers fill the holes of the texts of their forms. */
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

/** 0, 1, 2, 3, 4 as 0, -1, 1, -2, 2. */
export function signed(value) {
  return value % 2 ? -(value + 1) / 2 : value / 2;
}
