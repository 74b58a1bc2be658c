import { describe, expect, test } from '@jest/globals';
import { readPlan, unexplained } from '../../bench/against.mjs';
import { builtCheckout, lastRelease } from '../../bench/checkout.mjs';

const CHANGELOG = `# Changelog

## 0.9.0 (not released)

## 0.8.0 (2026-12-01, 0123abcd)

## 0.7.0 (2026-11-26, f171d73f)
`;

describe('the last release', () => {
  test.each([
    ['the newest one with a commit', '0.9.0', { version: '0.8.0', commit: '0123abcd' }],
    ['not this version itself', '0.8.0', { version: '0.7.0', commit: 'f171d73f' }],
  ])('is %s', (_, own, expected) => {
    expect(lastRelease(CHANGELOG, own)).toEqual(expected);
  });

  test('must be named', () => {
    expect(() => lastRelease('## 0.1.0 (not released)', '0.1.0')).toThrow('names no commit of a release');
  });
});

test('a commit that is not in the clone is named, with what to do', () => {
  expect(() => builtCheckout('0'.repeat(40))).toThrow('git fetch --unshallow');
});

describe('what to measure', () => {
  test('is taken from the options', () => {
    const words = ['26d29bfa', '--rounds=7', '--seconds=1', '--rows=debit,list', '--connections=1,64'];
    expect(readPlan([...words, '--redis=external'])).toEqual({
      ref: '26d29bfa',
      rounds: 7,
      seconds: 1,
      rows: ['debit', 'list'],
      connections: [1, 64],
      redis: ['external'],
    });
  });

  test('is everything by default, against the last release', () => {
    const { ref, ...plan } = readPlan([]);
    expect(ref).toMatch(/^[0-9a-f]{7,40}$/);
    expect(plan).toEqual({
      rounds: 5,
      seconds: 3,
      rows: ['reserve', 'commit', 'debit', 'batch', 'set', 'extend', 'list'],
      connections: [32, 200],
      redis: ['embedded', 'external'],
    });
  });

  test.each([
    [['--rounds=2'], 'an odd number'],
    [['--seconds=0'], 'an odd number'],
    [['--rows=reserve,nothing'], 'some of reserve, commit'],
    [['--connections='], 'numbers below 1000'],
    [['--redis=cluster'], 'embedded, external'],
    [['--pairs=3'], 'is no option'],
    [['one', 'two'], 'one commit'],
  ])('is refused: %s', (words, message) => {
    expect(() => readPlan(words)).toThrow(message);
  });
});

describe('processor time above that of the last release', () => {
  const seconds = (service: number, redis: number) => ({
    server_cpu_s: service,
    redis_cpu_s: redis,
    operations: 1000,
    per_second: 1000,
    elapsed_s: 1,
    requests: 1000,
    cpu_s: 0,
    next: 0,
    p50_ms: 1,
    p99_ms: 1,
    max_ms: 1,
  });
  /** In three rounds, this checkout takes these shares of the other one's time. */
  const measured = (...shares: readonly [service: number, redis: number][]) => [
    {
      redis: 'embedded',
      row: 'debit',
      connections: 32,
      pairs: shares.map(([service, redis]) => ({ ours: seconds(service, redis), theirs: seconds(1, 1) })),
    },
  ];
  const slow = measured([1.2, 1], [1.05, 1], [1, 2]);
  const place = { release: '0.7.0', row: 'debit', redis: 'embedded', connections: 32, part: 'service' };
  const reason = { ...place, ratio: 1.06, reason: 'It checks signatures.' };
  const refusal =
    "debit at 32 connections, embedded Redis: service takes 1.05 of 0.7.0's processor time; say why in bench/slower.json";

  test.each([
    ['is refused if the median of a row exceeds 1.03', slow, [], [refusal]],
    ['is no matter up to 1.03', measured([1.03, 0.9], [2, 1.03], [1, 3]), [], []],
    ['is allowed with a reason', slow, [reason], []],
    ['is refused above what the reason allows', slow, [{ ...reason, ratio: 1.04 }], [refusal]],
    ['is refused with a reason for another release', slow, [{ ...reason, release: '0.6.0' }], [refusal]],
    ['is refused with a reason for the other part', slow, [{ ...reason, part: 'Redis' }], [refusal]],
    ['is refused with an empty reason', slow, [{ ...reason, reason: '' }], [refusal]],
    [
      'is refused if nothing was measured',
      measured(),
      [],
      ['service', 'Redis'].map((part) => expect.stringContaining(`${part} takes unknown`)),
    ],
  ])('%s', (_, compared, reasons, expected) => {
    expect(unexplained(compared, '0.7.0', reasons)).toEqual(expected);
  });
});
