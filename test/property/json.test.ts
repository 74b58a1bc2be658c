import { hash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from '@jest/globals';
import { fingerprintOf } from '../../src/ledger/fingerprint.js';
import { canonicalJson, parseJson, stringifyJson } from '../../src/wire/json.js';

const beyondDouble = fc
  .bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
  .filter((value) => value > BigInt(Number.MAX_SAFE_INTEGER) || value < -BigInt(Number.MAX_SAFE_INTEGER));
/** JSON has only one zero. Strings that look like long numbers, quotes and escapes must stay strings. */
const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom(
    '9223372036854775807',
    '"9007199254740993"',
    '\\"1234567890123456789',
    '1e400',
    'a\\',
    '{"x":12345678901234567}',
  ),
);
const finite = fc
  .double({ noDefaultInfinity: true, noNaN: true })
  .map((value) => (Object.is(value, -0) ? 0 : value));

const { json } = fc.letrec<{ json: unknown }>((tie) => ({
  json: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom(null, true, false),
    fc.integer(),
    finite.filter((value) => !Number.isInteger(value) || Number.isSafeInteger(value)),
    beyondDouble,
    text,
    fc.array(tie('json'), { maxLength: 4 }),
    fc.dictionary(
      text.filter((key) => key !== '__proto__'),
      tie('json'),
      { maxKeys: 4, noNullPrototype: true },
    ),
  ),
}));

test('every value survives a round trip, and 64-bit integers keep every digit', () => {
  fc.assert(
    fc.property(json, (value) => expect(parseJson(stringifyJson(value))).toEqual(value)),
    { numRuns: 2000 },
  );
});

test('without long integers both directions are exactly the native ones', () => {
  fc.assert(
    fc.property(fc.json({ noUnicodeString: false }), (source) => {
      const native: unknown = JSON.parse(source);
      if (!/\d{16}|\d[eE]\+?\d{3}|__proto__/.test(source)) {
        expect(parseJson(source)).toEqual(native);
        expect(stringifyJson(native)).toBe(JSON.stringify(native));
      }
    }),
    { numRuns: 2000 },
  );
});

test('a fingerprint is the hash of the canonical form, whatever the request holds', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), json, { noNullPrototype: true }), (body) => {
      expect(fingerprintOf(body)).toBe(hash('sha256', canonicalJson(body), 'base64url').slice(0, 22));
    }),
  );
});
