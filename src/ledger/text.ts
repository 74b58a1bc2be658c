import { isUtf8 } from 'node:buffer';
import { randomFillSync } from 'node:crypto';

/** Line breaks, control characters, and marks that change the direction of text. */
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]+/g;

const SURROGATE_HALVES = /\p{Surrogate}/gu;

/** Free text as it is stored and logged: each run of line breaks and control characters becomes one space. */
export function oneLine(text: string | undefined): string {
  return text === undefined ? '' : text.replace(UNPRINTABLE, ' ').trim();
}

/** Free text without spaces and bars, as scripts take it. Halves of surrogate pairs, which have no encoding, are replaced. */
export function percentEncoded(text: string): string {
  return text === '' ? '' : encodeURIComponent(text.replaceAll(SURROGATE_HALVES, '\ufffd'));
}

/** The text that was encoded, or the given one if it is not encoded. */
export function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const NOT_ASCII = /[\u0080-\u00ff]/;

/** The text of a request header. Node gives each of its bytes as a character, so text in UTF-8 arrives garbled. */
export function headerText(value: string): string {
  if (!NOT_ASCII.test(value)) {
    return value;
  }
  const bytes = Buffer.from(value, 'latin1');
  return isUtf8(bytes) ? bytes.toString('utf8') : value;
}

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** The largest multiple of 62 that fits in a byte. Larger bytes are discarded, so that all characters are equally likely. */
const UNBIASED = 248;
const pool = new Uint8Array(4096);
let next = pool.length;

/** Unpredictable characters from 0-9, A-Z and a-z, 5.95 bits each. Random bytes are fetched in blocks, because each call is slow. */
export function randomBase62(length: number): string {
  let text = '';
  while (text.length < length) {
    if (next === pool.length) {
      randomFillSync(pool);
      next = 0;
    }
    const byte = pool[next] as number;
    pool[next] = 0;
    next += 1;
    if (byte < UNBIASED) {
      text += ALPHABET[byte % 62];
    }
  }
  return text;
}
