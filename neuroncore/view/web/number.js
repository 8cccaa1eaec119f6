// The value of an element's bits, from the row of its format (neuroncore/numerics/formats.py).

const shared = new DataView(new ArrayBuffer(8));

/** Return a function that converts codes of a format to numbers. */
export function decoder(format) {
  const { kind, bytes } = format, bits = 8 * bytes;
  if (kind === "int") return (code) => (code >= 2 ** (bits - 1) ? code - 2 ** bits : code);
  if (kind === "scale") return (code) => (code === 2 ** bits - 1 ? NaN : 2 ** (code - format.bias));
  if (kind !== "float") return (code) => code;
  if (bytes === 4) return (code) => (shared.setUint32(0, code), shared.getFloat32(0));
  return (code) => narrow(code, format);
}

function narrow(code, { exponent, mantissa, bias, infinite, nan }) {
  const parts = 2 ** mantissa, fraction = code % parts, top = 2 ** exponent - 1;
  const power = Math.floor(code / parts) % (top + 1);
  const sign = Math.floor(code / parts / (top + 1)) ? -1 : 1;
  if (power === top && infinite) return fraction ? NaN : sign * Infinity;
  if (power === top && nan && fraction === parts - 1) return NaN;
  if (!power) return sign * fraction * 2 ** (1 - bias - mantissa);
  return sign * (1 + fraction / parts) * 2 ** (power - bias);
}

const CODES = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array };

/** Return the codes in a byte array. No tile has elements of 8 bytes. */
export function codes(content, format) {
  return new CODES[format.bytes](content);
}

/** Return the bits of a code in groups, which are sign, exponent and fraction for a float. */
export function groups(code, format) {
  const bits = code.toString(2).padStart(8 * format.bytes, "0");
  if (format.kind !== "float") return [["bits", bits]];
  const wide = format.bytes === 4 ? { exponent: 8 } : format; // a format stored as float32 has float32's layout
  const rest = 1 + wide.exponent;
  return [["sign", bits[0]], ["exponent", bits.slice(1, rest)], ["fraction", bits.slice(rest)]];
}

/** Return a number as text, with enough digits to distinguish it from other numbers of its format. */
export function written(value, format) {
  if (!Number.isFinite(value) || Number.isInteger(value)) return Object.is(value, -0) ? "-0" : String(value);
  return String(Number(value.toPrecision(format.bytes === 4 ? 9 : 6)));
}
