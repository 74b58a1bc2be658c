import { randomFillSync } from 'node:crypto';

/** Whatever ends a line, commands a terminal, or turns the direction of writing. */
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]+/g;

/** A free text as it is stored and logged: each run of line breaks and control characters becomes one space. Nothing stays nothing. */
export function oneLine(text: string | undefined): string {
  return text === undefined ? '' : text.replace(UNPRINTABLE, ' ').trim();
}

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** The largest multiple of 62 in a byte; bytes above it are dropped, so that every character is equally likely. */
const UNBIASED = 248;
const pool = new Uint8Array(4096);
let next = pool.length;

/** Unpredictable characters out of 0-9, A-Z, a-z: 5.95 bits each. Bytes are drawn a block at a time, as one draw is costly. */
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
