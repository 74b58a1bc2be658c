import fc, { type Arbitrary } from 'fast-check';
import { INT64_MAX } from '../../../src/ledger/amount.js';
import type { SpecSchema } from '../spec/index.js';
import type { Known } from './known.js';

/**
 * The text of a value. It is made when the request is sent, because the existing ids are not known before.
 */
export type Text = (known: Known) => string;

/** One value in this many is hostile, whatever its schema says. A body has about ten values. */
const HOSTILE_IN = 30;
const INT64_MIN = -INT64_MAX - 1n;

const nested = (open: string, depth: number, close: string): string =>
  open.repeat(depth) + close.repeat(depth);

/** Strings that are known to have broken parsers, loggers, key builders and prototypes. */
export const HOSTILE_TEXTS: readonly string[] = [
  '',
  ' ',
  '\t',
  '\0',
  'a\0b',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'null',
  'undefined',
  'NaN',
  '-0',
  '1e9',
  '9223372036854775808',
  'a\r\nX-Forged: 1',
  '\u001b[31mred\u001b[0m',
  'a\u0085b\u2028c\u2029d',
  '\u202egnp.exe',
  '\ufeff',
  '\ufffd',
  '😀'.repeat(70),
  '\ud800',
  '../../etc/passwd',
  '%00',
  '%2e%2e%2f',
  '*',
  '?',
  '[a-z',
  '{p00}',
  '|',
  ':',
  '/',
  'tenant:',
  'a'.repeat(257),
  'x'.repeat(5000),
  'é'.repeat(70_000),
];

/** JSON that violates every schema, or barely satisfies one. */
const HOSTILE_JSON: readonly string[] = [
  ...HOSTILE_TEXTS.map((text) => JSON.stringify(text)),
  ...[
    'null',
    'true',
    'false',
    '0',
    '-0',
    '-1',
    '1.5',
    '1e2',
    '1e400',
    '-1e400',
    '1e-400',
    '1E+0999',
    '9'.repeat(41),
    '9'.repeat(5000),
  ],
  ...[
    2n ** 53n - 1n,
    2n ** 53n,
    2n ** 53n + 1n,
    INT64_MAX,
    INT64_MAX + 1n,
    INT64_MIN,
    INT64_MIN - 1n,
    2n ** 64n,
  ].map(String),
  ...[
    '[]',
    '{}',
    '[null]',
    '[[]]',
    '{"":null}',
    '{"a":1,"a":2}',
    '{"__proto__":{"admin":true}}',
    '{"constructor":{"prototype":{}}}',
    '{"toString":1}',
    '{"length":-1}',
  ],
  ...[
    nested('[', 33, ']'),
    nested('[', 20_000, ']'),
    `${'{"a":'.repeat(33)}1${'}'.repeat(33)}`,
    `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`,
  ],
  ...[
    '"\\ud800"',
    '"\\u0000"',
    '"\\udc00\\ud800"',
    '"\\x41"',
    "'a'",
    'NaN',
    'Infinity',
    'undefined',
    '01',
    '+1',
    '.5',
    '1.',
    '"a',
    '[1,]',
    '/**/1',
    '',
  ],
];

const HOSTILE_MEMBERS = [
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'unknown',
  '',
  '\0',
  'a'.repeat(300),
];

const mostly = (good: Arbitrary<Text>, bad: readonly string[]): Arbitrary<Text> =>
  fc.oneof(
    { weight: HOSTILE_IN - 1, arbitrary: good },
    { weight: 1, arbitrary: fc.constantFrom(...bad).map((text) => () => text) },
  );

/** JSON text of a value that mostly conforms to its schema and bounds. */
export function jsonOf(schema: SpecSchema, name = ''): Arbitrary<Text> {
  return mostly(obedient(schema, name), HOSTILE_JSON);
}

/** A parameter as plain text, before it is encoded. */
export function plainOf(schema: SpecSchema, name: string): Arbitrary<Text> {
  if (schema.type === 'array') {
    const items = fc.array(plainOf(schema.items ?? {}, name), { maxLength: 4 });
    return mostly(
      items.map((texts) => (known) => texts.map((text) => text(known)).join(',')),
      HOSTILE_TEXTS,
    );
  }
  return mostly(schema.type === 'string' ? textOf(schema, name) : obedient(schema, name), HOSTILE_TEXTS);
}

function obedient(schema: SpecSchema, name: string): Arbitrary<Text> {
  if (Array.isArray(schema.type)) {
    return fc.oneof(...(schema.type as readonly string[]).map((type) => obedient({ ...schema, type }, name)));
  }
  switch (schema.type) {
    case 'string':
      return textOf(schema, name).map((text) => (known) => JSON.stringify(text(known)));
    case 'integer':
      return integerOf(schema, name);
    case 'number':
      return fc.constantFrom('0', '0.5', '1', '0.1e1').map((text) => () => text);
    case 'boolean':
      return fc.constantFrom('true', 'false').map((text) => () => text);
    case 'array':
      return fc
        .array(jsonOf(schema.items ?? {}, name), {
          minLength: bound(schema['minItems'], 0),
          maxLength: Math.min(bound(schema['maxItems'], 3), 3),
        })
        .map((items) => (known) => `[${items.map((item) => item(known)).join(',')}]`);
    case 'object':
      return objectOf(schema);
    case 'null':
      return fc.constant(() => 'null');
    default:
      return fc.json({ maxDepth: 2 }).map((text) => () => text);
  }
}

const bound = (given: unknown, otherwise: number): number =>
  given === undefined ? otherwise : Number(given);

/** The limits of the range, values beyond them, and small amounts, which a budget may cover. */
function integerOf(schema: SpecSchema, name: string): Arbitrary<Text> {
  // A shorter lease could end before the test does, and then even a refusal may reclaim it.
  const min = name.endsWith('ttl_ms')
    ? 600_000n
    : BigInt((schema['minimum'] as number | bigint | undefined) ?? INT64_MIN);
  const max = BigInt((schema['maximum'] as number | bigint | undefined) ?? INT64_MAX);
  const small = fc.bigInt({ min, max: min + 100n < max ? min + 100n : max });
  const edge = fc.constantFrom(min, max, max - 1n, min + 1n, max + 1n, min - 1n);
  return fc
    .oneof(
      { weight: 12, arbitrary: small },
      { weight: 1, arbitrary: fc.bigInt({ min, max }) },
      { weight: 1, arbitrary: edge },
    )
    .map((value) => () => value.toString());
}

/** A known value for this name, or else one that the schema allows. */
function textOf(schema: SpecSchema, name: string): Arbitrary<Text> {
  // A used idempotency key causes a replay or a mismatch, so most keys are new.
  const seenIn10 = name === 'idempotency_key' ? 1 : 7;
  return fc.tuple(newTextOf(schema), fc.nat(9), fc.nat(100)).map(([fresh, chance, index]) => (known) => {
    const seen = chance < seenIn10 ? known.pick(name, index) : undefined;
    return seen === undefined || schema.enum?.includes(seen) === false ? fresh : seen;
  });
}

function newTextOf(schema: SpecSchema): Arbitrary<string> {
  if (schema.enum !== undefined) {
    return fc.constantFrom(...schema.enum.map(String));
  }
  const [min, max] = [bound(schema['minLength'], 0), bound(schema['maxLength'], 40)];
  if (schema['format'] === 'date-time') {
    return fc
      .date({ noInvalidDate: true, min: new Date(0), max: new Date('9999-12-31T23:59:59Z') })
      .map((date) => date.toISOString());
  }
  if (schema['format'] === 'uri') {
    // Names that are never sent to a resolver.
    return fc.constantFrom(
      'http://127.0.0.1:9/',
      'https://hook.invalid/in?a=%20',
      'https://[::1]:9/',
      'http://169.254.169.254/',
      'https://a:b@hook.invalid/',
    );
  }
  if (typeof schema['pattern'] === 'string') {
    return fc.stringMatching(new RegExp(schema['pattern'])).map((text) => text.slice(0, max));
  }
  const edges = fc.constantFrom(min, max, max + 1).map((length) => 'é'.repeat(length));
  const text = fc.string({ unit: 'grapheme', minLength: min, maxLength: Math.min(max, 40) });
  return fc.oneof({ weight: 5, arbitrary: text }, { weight: 1, arbitrary: edges });
}

function objectOf(schema: SpecSchema): Arbitrary<Text> {
  const named = Object.entries(schema.properties ?? {}).map(([name, property]) => {
    const present = schema.required?.includes(name) === true ? 0.99 : 0.3;
    return maybe(present, memberOf(fc.constant(name), jsonOf(property, name)));
  });
  const free = schema.additionalProperties;
  const values = jsonOf(typeof free === 'object' ? free : {});
  const open =
    free !== undefined && free !== false ? [maybe(0.9, memberOf(fc.string({ maxLength: 8 }), values))] : [];
  const hostile = maybe(
    0.01,
    memberOf(
      fc.constantFrom(...HOSTILE_MEMBERS),
      fc.constantFrom(...HOSTILE_JSON).map((text) => () => text),
    ),
  );
  // Some members are repeated; the last one with a name counts.
  const members = fc.tuple(...named, ...open, hostile, fc.nat(99)).map((parts) => {
    const found = parts.filter((part) => typeof part === 'function');
    return parts.at(-1) === 0 ? [...found, ...found] : found;
  });
  return members.map((found) => (known) => `{${found.map((member) => member(known)).join(',')}}`);
}

function memberOf(name: Arbitrary<string>, value: Arbitrary<Text>): Arbitrary<Text> {
  return fc.tuple(name, value).map(
    ([key, text]) =>
      (known) =>
        `${JSON.stringify(key)}:${text(known)}`,
  );
}

function maybe<T>(probability: number, arbitrary: Arbitrary<T>): Arbitrary<T | undefined> {
  const there = Math.round(probability * 100);
  return fc.oneof({ weight: there, arbitrary }, { weight: 100 - there, arbitrary: fc.constant(undefined) });
}
