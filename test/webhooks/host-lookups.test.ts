import type { LookupAddress } from 'node:dns';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { HostLookups } from '../../src/webhooks/target-policy/host-lookups.js';

const FOUND: LookupAddress[] = [{ address: '93.184.216.34', family: 4 }];
const AT_ONCE = 16;

interface Pending {
  readonly done: (addresses: readonly LookupAddress[]) => void;
  readonly fail: (error: Error) => void;
}

let asked: string[];
let answers: Map<string, Pending>;
let outcomes: string[];
let lookups: HostLookups;

beforeEach(() => {
  jest.useFakeTimers();
  [asked, answers, outcomes] = [[], new Map(), []];
  const resolve = (hostname: string): Promise<readonly LookupAddress[]> => {
    asked.push(hostname);
    return new Promise((done, fail) => answers.set(hostname, { done, fail }));
  };
  lookups = new HostLookups(resolve, { lookedUp: (outcome) => outcomes.push(outcome) });
});

afterEach(() => {
  jest.useRealTimers();
});

/** Lets everything happen that takes no time. */
const settle = (): Promise<void> => jest.advanceTimersByTimeAsync(0);

function failure(code: string): Error {
  return Object.assign(new Error(code), { code });
}

/** Starts a lookup without waiting for its answer. */
function begin(hostname: string, owner = 'acme'): Promise<string> {
  return lookups.addressesOf(hostname, owner).then(
    () => 'found',
    (error: NodeJS.ErrnoException) => error.code ?? 'no code',
  );
}

test('a name has one lookup at a time, for all callers', async () => {
  const both = [
    begin('one.example'),
    begin('one.example'),
    begin('one.example', 'other'),
    begin('two.example'),
  ];
  await settle();
  expect(asked).toEqual(['one.example', 'two.example']);
  answers.get('one.example')?.done(FOUND);
  expect(await Promise.all(both.slice(0, 3))).toEqual(['found', 'found', 'found']);
});

test('an address needs no lookup', async () => {
  expect(await lookups.addressesOf('192.0.2.1', 'acme')).toEqual([{ address: '192.0.2.1', family: 4 }]);
  expect(await lookups.addressesOf('2001:db8::1', 'acme')).toEqual([{ address: '2001:db8::1', family: 6 }]);
  expect([asked, outcomes]).toEqual([[], []]);
});

test('an answer is kept for as long as its server allows, for half a minute at most, and not at all without a TTL', async () => {
  const ask = async (ttl: number | undefined): Promise<void> => {
    const answer = begin('kept.example');
    await settle();
    answers
      .get('kept.example')
      ?.done(FOUND.map((address) => (ttl === undefined ? address : { ...address, ttl })));
    await answer;
  };
  await ask(undefined);
  await ask(10);
  expect(asked).toHaveLength(2);
  await jest.advanceTimersByTimeAsync(9000);
  expect(await begin('kept.example')).toBe('found');
  expect(asked).toHaveLength(2);
  await jest.advanceTimersByTimeAsync(2000);
  await ask(86_400);
  expect(asked).toHaveLength(3);
  await jest.advanceTimersByTimeAsync(31_000);
  await ask(0);
  expect(asked).toHaveLength(4);
  expect(outcomes).toEqual(['found', 'found', 'known', 'found', 'found']);
});

test('fifty thousand addresses are kept at most, however many an answer holds', async () => {
  const many = Array.from({ length: 4000 }, () => ({ address: '93.184.216.34', family: 4, ttl: 30 }));
  const ask = async (name: string): Promise<void> => {
    const found = begin(name);
    await settle();
    answers.get(name)?.done(many);
    expect(await found).toBe('found');
  };
  const names = Array.from({ length: 13 }, (_, index) => `many-${index}.example`);
  for (const name of names) {
    await ask(name);
  }
  await ask('many-12.example');
  await ask('many-1.example');
  expect(asked).toEqual(names);
  await ask('many-0.example');
  expect(asked).toEqual([...names, 'many-0.example']);
});

test('a name that failed is not looked up again immediately', async () => {
  const first = begin('failing.example');
  await settle();
  answers.get('failing.example')?.fail(failure('ESERVFAIL'));
  expect(await first).toBe('ESERVFAIL');
  expect(await begin('failing.example')).toBe('ESERVFAIL');
  expect(lookups.knownFailure('failing.example')).toMatchObject({ code: 'ESERVFAIL' });
  expect(asked).toEqual(['failing.example']);
  await jest.advanceTimersByTimeAsync(5001);
  expect(lookups.knownFailure('failing.example')).toBeUndefined();
  const later = begin('failing.example');
  await settle();
  expect(asked).toHaveLength(2);
  answers.get('failing.example')?.fail(failure('ENOTFOUND'));
  expect(await later).toBe('ENOTFOUND');
  expect(outcomes).toEqual(['failed', 'known', 'known', 'not_found']);
});

test('an owner with many names waits for its own places, and the others do not wait for it', async () => {
  const many = Array.from({ length: AT_ONCE + 2 }, (_, index) => begin(`silent-${index}.example`));
  const other = begin('hooks.example', 'other');
  // The owner with many names also waits for this name, but nobody waits in another owner's queue.
  const same = begin(`silent-${AT_ONCE}.example`, 'other');
  await settle();
  expect(asked).toEqual([
    ...Array.from({ length: AT_ONCE }, (_, index) => `silent-${index}.example`),
    'hooks.example',
    `silent-${AT_ONCE}.example`,
  ]);
  expect([lookups.inUse, lookups.waiting]).toEqual([AT_ONCE + 2, 2]);
  answers.get('hooks.example')?.done(FOUND);
  answers.get(`silent-${AT_ONCE}.example`)?.done(FOUND);
  expect(await Promise.all([other, same])).toEqual(['found', 'found']);
  await jest.advanceTimersByTimeAsync(1001);
  expect(await Promise.all(many.slice(AT_ONCE))).toEqual(['ELOOKUPSBUSY', 'ELOOKUPSBUSY']);
  expect(outcomes.filter((outcome) => outcome === 'busy')).toHaveLength(2);
});

test("names that failed leave their owner's places to those that did not", async () => {
  const names = Array.from({ length: AT_ONCE }, (_, index) => `silent-${index}.example`);
  const first = names.map((name) => begin(name));
  await settle();
  names.forEach((name) => answers.get(name)?.fail(failure('ETIMEOUT')));
  await Promise.all(first);
  await jest.advanceTimersByTimeAsync(5001);
  const again = names.map((name) => begin(name));
  const good = begin('hooks.example');
  await settle();
  answers.get('hooks.example')?.done(FOUND);
  expect(await good).toBe('found');
  expect(lookups.inUse).toBe(AT_ONCE);
  names.forEach((name) => answers.get(name)?.fail(failure('ETIMEOUT')));
  expect(new Set(await Promise.all(again))).toEqual(new Set(['ETIMEOUT']));
});
