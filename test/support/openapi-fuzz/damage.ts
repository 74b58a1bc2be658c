import fc, { type Arbitrary } from 'fast-check';
import { BODY_LIMIT_BYTES } from '../../../src/http/fastify.js';

/** Damages a body in transit. */
export type Damage = (body: Buffer) => Buffer;

/** Overlong, surrogate, truncated and impossible sequences. None of them is valid UTF-8. */
const NOT_UTF8 = ['ff', 'c080', 'eda080', 'e282', 'f4908080', '80'].map((hex) => Buffer.from(hex, 'hex'));

const insert = (body: Buffer, at: number, bytes: Buffer): Buffer =>
  Buffer.concat([body.subarray(0, at), bytes, body.subarray(at)]);

/** Usually leaves the body intact. */
export const damagedBody: Arbitrary<Damage> = fc.oneof(
  { weight: 30, arbitrary: fc.constant<Damage>((body) => body) },
  {
    weight: 1,
    arbitrary: fc.nat().map(
      (at): Damage =>
        (body) =>
          body.subarray(0, at % (body.length + 1)),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.nat(), fc.nat(255)).map(([at, byte]): Damage => (body) => {
      const changed = Buffer.from(body);
      changed[at % Math.max(body.length, 1)] = byte;
      return changed;
    }),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.nat(), fc.constantFrom(...NOT_UTF8)).map(
      ([at, bytes]): Damage =>
        (body) =>
          insert(body, at % (body.length + 1), bytes),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom<Damage>(
      () => Buffer.alloc(0),
      (body) => Buffer.concat([Buffer.from('\ufeff'), body]),
      (body) => Buffer.concat([body, body]),
      (body) => Buffer.concat([body, Buffer.from('\0')]),
      (body) => Buffer.concat([body, Buffer.alloc(BODY_LIMIT_BYTES, ' ')]),
      (body) => Buffer.concat([Buffer.alloc(BODY_LIMIT_BYTES - body.length, ' '), body]),
      (body) => Buffer.from(body.toString('utf8'), 'utf16le'),
    ),
  },
);
