import { hash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from '@jest/globals';
import { fingerprintOf } from '../../src/ledger/fingerprint.js';
import { JsonProblem, readJson, stringifyJson } from '../../src/wire/exact-json.js';
import { canonicalJson } from '../../src/wire/json.js';

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
    fc.property(json, (value) => expect(readJson(stringifyJson(value))).toEqual(value)),
    { numRuns: 2000 },
  );
});

test('without long integers both directions are exactly the native ones', () => {
  fc.assert(
    fc.property(fc.json({ noUnicodeString: false }), (source) => {
      const native: unknown = JSON.parse(source);
      if (!/\d{16}|\d[eE]\+?\d{3}|__proto__/.test(source)) {
        expect(readJson(source)).toEqual(native);
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

/** JSON with a character replaced or inserted. Most of it is not valid any more. */
const broken = fc
  .tuple(
    fc.json({ noUnicodeString: false }),
    fc.nat(),
    fc.constantFrom(
      '',
      '"',
      '\\',
      ',',
      ':',
      '{',
      '}',
      '[',
      ']',
      '0',
      '.',
      'e',
      '-',
      't',
      '\n',
      '\u0000',
      ' ',
    ),
    fc.boolean(),
  )
  .map(([source, position, piece, replaces]) => {
    const at = position % (source.length + 1);
    return source.slice(0, at) + piece + source.slice(replaces ? at + 1 : at);
  });

test('what JSON.parse refuses is refused, and what it accepts is accepted unless a rule of its own forbids it', () => {
  const OWN_RULES = /twice|__proto__|surrogate|too large|digits/;
  fc.assert(
    fc.property(broken, (source) => {
      let isValid = true;
      try {
        JSON.parse(source);
      } catch {
        isValid = false;
      }
      try {
        readJson(source);
        expect(isValid).toBe(true);
      } catch (error) {
        expect(error).toBeInstanceOf(JsonProblem);
        expect(isValid ? OWN_RULES.test((error as Error).message) : true).toBe(true);
      }
    }),
    { numRuns: 5000 },
  );
});

test('a member that an object has twice is refused wherever the object is, and however its name is written', () => {
  const places = fc.array(fc.constantFrom('list', 'object'), { maxLength: 6 });
  fc.assert(
    fc.property(places, fc.string(), json, json, (outer, name, first, second) => {
      fc.pre(name !== '__proto__');
      const plain = JSON.stringify(name);
      const escaped = `"${[...name].map((character) => character.replace(/./su, escapeOf)).join('')}"`;
      const inner = `{${plain}:${stringifyJson(first)} , ${escaped} :${stringifyJson(second)}}`;
      const text = outer.reduce((held, place) => (place === 'list' ? `[1,${held}]` : `{"x":${held}}`), inner);
      expect(() => readJson(text)).toThrow(/^has the member .* twice$/s);
    }),
  );
});

function escapeOf(character: string): string {
  return [...Array(character.length).keys()]
    .map((index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, '0')}`)
    .join('');
}

test.each([
  ['3.3333333333333335', 3.3333333333333335],
  ['[0.1234567890123456789012345678901234567890]', [0.12345678901234568]],
  ['{"a":-1234567890123456.75e-3}', { a: -1234567890123.4568 }],
  ['9223372036854775807', 9223372036854775807n],
  ['[-9007199254740993,9007199254740991]', [-9007199254740993n, 9007199254740991]],
])('%s is read', (text, value) => {
  expect(readJson(text)).toEqual(value);
});

test('long strings are read, with and without escapes', () => {
  for (const text of ['x'.repeat(1_000_000), '\n'.repeat(500_000), '"\\'.repeat(200_000)]) {
    expect(readJson(JSON.stringify({ text }))).toEqual({ text });
  }
});
