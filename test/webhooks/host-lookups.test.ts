import type { LookupAddress } from 'node:dns';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { HostLookups } from '../../src/webhooks/target-policy/index.js';

const FOUND: LookupAddress[] = [{ address: '93.184.216.34', family: 4 }];

let asked: string[];
let answers: Map<string, { readonly done: (addresses: LookupAddress[]) => void; readonly fail: (error: Error) => void }>;
let lookups: HostLookups;

beforeEach(() => {
  jest.useFakeTimers();
  [asked, answers] = [[], new Map()];
  lookups = new HostLookups((hostname) => {
    asked.push(hostname);
    return new Promise((done, fail) => answers.set(hostname, { done, fail }));
  });
});

afterEach(() => {
  jest.useRealTimers();
});

test('a name is looked up once at a time, for whoever asks, and anew afterwards', async () => {
  const both = [lookups.addressesOf('one.example'), lookups.addressesOf('one.example')];
  void lookups.addressesOf('two.example').catch(() => undefined);
  expect(asked).toEqual(['one.example', 'two.example']);
  answers.get('one.example')?.done(FOUND);
  expect(await Promise.all(both)).toEqual([FOUND, FOUND]);
  const again = lookups.addressesOf('one.example');
  answers.get('one.example')?.fail(new Error('SERVFAIL'));
  await expect(again).rejects.toThrow('SERVFAIL');
  expect(asked).toEqual(['one.example', 'two.example', 'one.example']);
});

test('a name without an answer fails after five seconds, and at once while the system still waits', async () => {
  const first = expect(lookups.addressesOf('hanging.example')).rejects.toThrow('hanging.example was not resolved within 5000 ms');
  await jest.advanceTimersByTimeAsync(5000);
  await first;
  await expect(lookups.addressesOf('hanging.example')).rejects.toThrow('was not resolved');
  expect(asked).toEqual(['hanging.example']);
  answers.get('hanging.example')?.done(FOUND);
  await jest.advanceTimersByTimeAsync(0);
  const later = lookups.addressesOf('hanging.example');
  answers.get('hanging.example')?.done(FOUND);
  expect(await later).toEqual(FOUND);
});
