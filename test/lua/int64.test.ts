import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { INT64_MAX, INT64_MIN } from '../../src/ledger/amount.js';
import { sharedStoreUrl } from '../support/store.js';
import { probeText } from '../support/script-probe.js';

const HEADER = `#!lua flags=no-writes
-- probe: runs the arithmetic.
-- RETURNS figures
-- BOUND one probe
-- EMITS nothing
-- @include int64
`;
const isAmountProbe = probeText(`${HEADER}return int64.is_amount(ARGV[1]) and 'amount' or 'no amount'\n`);
const probe = probeText(`${HEADER}local reply = {}
for i = 1, #ARGV, 2 do
  local a, b = ARGV[i], ARGV[i + 1]
  reply[#reply + 1] = { int64.add(a, b) or 'overflow', int64.sub(a, b) or 'overflow', int64.less(a, b) and 'less' or 'not less',
    int64.positive(a) and 'positive' or 'not positive', int64.saturating_add((string.gsub(a, '-', '')), (string.gsub(b, '-', ''))), int64.is_amount(a) and 'amount' or 'no amount' }
end
return reply
`);

let redis: Redis;
beforeAll(() => {
  redis = new Redis(sharedStoreUrl());
});
afterAll(async () => {
  await redis.quit();
});

const inRange = (value: bigint): string =>
  value > INT64_MAX || value < INT64_MIN ? 'overflow' : String(value);

function expectedOf(a: bigint, b: bigint): string[] {
  const magnitudes = (a < 0n ? -a : a) + (b < 0n ? -b : b);
  return [
    inRange(a + b),
    inRange(a - b),
    a < b ? 'less' : 'not less',
    a > 0n ? 'positive' : 'not positive',
    String(magnitudes > INT64_MAX ? INT64_MAX : magnitudes),
    a >= 0n ? 'amount' : 'no amount',
  ];
}

async function evaluate(pairs: readonly (readonly [bigint, bigint])[]): Promise<string[][]> {
  return (await redis.eval(probe, 0, ...pairs.flat().map(String))) as string[][];
}

/**
 * Values where digits carry and code paths change: powers of ten and of two, the limbs, both ends of the
 * range.
 */
const edges = [
  ...[0n, 1n, 2n, 9n, INT64_MAX, INT64_MAX - 1n, INT64_MIN, INT64_MIN + 1n],
  ...[13n, 14n, 15n, 16n, 17n, 18n].flatMap((digits) => [
    10n ** digits - 1n,
    10n ** digits,
    10n ** digits + 1n,
  ]),
  ...[52n, 53n, 54n, 62n].flatMap((bits) => [2n ** bits - 1n, 2n ** bits, 2n ** bits + 1n]),
].flatMap((value) => (value > 0n ? [value, -value] : [value]));

test('every pair of edge values adds, subtracts and compares as BigInt does', async () => {
  const pairs = edges.flatMap((a) => edges.map((b) => [a, b] as const));
  expect(await evaluate(pairs)).toEqual(pairs.map(([a, b]) => expectedOf(a, b)));
});

test('random pairs of every length add, subtract and compare as BigInt does', async () => {
  const amount = fc.oneof(
    fc.bigInt({ min: INT64_MIN, max: INT64_MAX }),
    fc.bigInt({ min: -(10n ** 16n), max: 10n ** 16n }),
    fc.bigInt({ min: -1000n, max: 1000n }),
    fc.constantFrom(...edges),
  );
  const near = fc
    .tuple(amount, fc.bigInt({ min: -3n, max: 3n }))
    .map(([a, step]) => [a, a + step > INT64_MAX || a + step < INT64_MIN ? a : a + step] as const);
  const pair = fc.oneof(fc.tuple(amount, amount), near);
  await fc.assert(
    fc.asyncProperty(fc.array(pair, { minLength: 1, maxLength: 50 }), async (pairs) => {
      expect(await evaluate(pairs)).toEqual(pairs.map(([a, b]) => expectedOf(a, b)));
    }),
    { numRuns: 300 },
  );
});

test('only canonical non-negative int64 texts are amounts', async () => {
  const texts = [
    '',
    '-0',
    '00',
    '01',
    '+1',
    '1.0',
    '1e3',
    ' 1',
    '1 ',
    '0x1',
    'nan',
    '9223372036854775808',
    '10000000000000000000',
  ];
  for (const text of texts) {
    expect(`${text}: ${String(await redis.eval(isAmountProbe, 0, text))}`).toBe(`${text}: no amount`);
  }
});
