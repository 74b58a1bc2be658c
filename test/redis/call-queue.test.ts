import { setImmediate as turn } from 'node:timers/promises';
import { expect, jest, test } from '@jest/globals';
import { StoreUnavailable } from '../../src/redis/errors.js';
import { GroupedCalls } from '../../src/redis/grouped-calls.js';
import type { Script } from '../../src/redis/script-library.js';

const SCRIPT = { functionName: 'probe', group: 2 } as unknown as Script;

/**
 * Runs that take as long as the test wants. They reply to each call with its first argument, optionally only
 * to the first few calls.
 */
function slowRuns(waitMs?: number) {
  const ended: ((error?: Error, calls?: number) => void)[] = [];
  const sent: string[][] = [];
  const calls = new GroupedCalls(
    async (_, __, args) => {
      const texts = args.slice(0, args.at(-1) as number) as string[];
      sent.push(texts);
      const calls = await new Promise<number | undefined>((resolve, reject) => {
        ended.push((error, calls) => (error === undefined ? resolve(calls) : reject(error)));
      });
      return texts.slice(0, calls);
    },
    () => undefined,
    waitMs,
  );
  const call = (text: string, tag = '{p00}') => calls.call(SCRIPT, [`${tag}k`], [text]);
  return { ended, sent, call, callAll: (...texts: string[]) => texts.map((text) => call(text)) };
}

test('calls of one turn are sent together, in order of arrival, and each gets its own reply', async () => {
  const { callAll, ended, sent } = slowRuns();
  const answers = callAll('a', 'b', 'c');
  await turn();
  expect(sent).toEqual([['a', 'b'], ['c']]);
  ended.forEach((end) => end());
  expect(await Promise.all(answers)).toEqual([['a'], ['b'], ['c']]);
});

test('a call does not wait for runs in flight unless there are four', async () => {
  const { call, callAll, ended, sent } = slowRuns();
  const inFlight: Promise<unknown>[] = [];
  for (const text of ['a', 'b', 'c', 'd']) {
    inFlight.push(call(text));
    await turn();
  }
  expect(sent).toEqual([['a'], ['b'], ['c'], ['d']]);
  const others = callAll('e', 'f', 'g');
  await turn();
  expect(sent).toHaveLength(4);
  ended[1]?.();
  expect(await inFlight[1]).toEqual(['b']);
  await turn();
  expect(sent.slice(4)).toEqual([['e', 'f']]);
  ended[0]?.();
  expect(await inFlight[0]).toEqual(['a']);
  await turn();
  expect(sent.slice(4)).toEqual([['e', 'f'], ['g']]);
  ended.forEach((end) => end());
  expect(await Promise.all(others)).toEqual([['e'], ['f'], ['g']]);
});

/** As many as four runs take. */
const FILLING = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];

test('calls that were cut off from their run are sent next, in order of arrival', async () => {
  const { callAll, ended, sent } = slowRuns();
  const answers = callAll(...FILLING, 'i');
  await turn();
  ended[0]?.(undefined, 1);
  ended[1]?.(undefined, 1);
  expect(await Promise.all([answers[0], answers[2]])).toEqual([['a'], ['c']]);
  await turn();
  expect(sent.slice(4)).toEqual([['b', 'd'], ['i']]);
  ended.forEach((end) => end());
  expect(await Promise.all(answers)).toEqual([...FILLING, 'i'].map((text) => [text]));
});

test('a call that has waited too long is refused and not sent', async () => {
  const { call, callAll, ended, sent } = slowRuns(50);
  const clock = jest.spyOn(performance, 'now').mockReturnValue(0);
  const first = callAll(...FILLING);
  await turn();
  const refused = expect(call('late')).rejects.toEqual(new StoreUnavailable('timeout'));
  clock.mockReturnValue(51);
  const last = call('last');
  ended[0]?.();
  await refused;
  ended.forEach((end) => end());
  expect(await Promise.all(first)).toEqual(FILLING.map((text) => [text]));
  ended[4]?.();
  expect(await last).toEqual(['last']);
  expect(sent.slice(4)).toEqual([['last']]);
  clock.mockRestore();
});

test('waiting calls fail with a run that did not reach Redis, but not with a run that failed in Redis', async () => {
  const { callAll, ended, sent } = slowRuns();
  const failing = callAll(...FILLING, 'i').map((reply) => expect(reply).rejects.toThrow('cannot be reached'));
  await turn();
  ended.forEach((end) => end(new StoreUnavailable('connection')));
  await Promise.all(failing);
  expect(sent).toHaveLength(4);

  const [broken, alsoBroken, ...sound] = callAll(...FILLING, 'j');
  const broke = [broken, alsoBroken].map((reply) => expect(reply).rejects.toThrow('broken'));
  await turn();
  ended[4]?.(new Error('broken'));
  await Promise.all(broke);
  await turn();
  ended.slice(5).forEach((end) => end());
  expect(await Promise.all(sound)).toEqual([...FILLING.slice(2), 'j'].map((text) => [text]));
});

test('runs grow while they are short and their partition is alone busy, and are as long as the header says otherwise', async () => {
  const { call, callAll, ended, sent } = slowRuns();
  const clock = jest.spyOn(performance, 'now').mockReturnValue(0);
  const answers = callAll(...Array.from({ length: 26 }, (_, index) => String(index)));
  await turn();
  const lengths = async (run: number, at: number): Promise<number[]> => {
    clock.mockReturnValue(at);
    ended[run]?.();
    await turn();
    await turn();
    return sent.slice(4).map((texts) => texts.length);
  };
  expect(sent.map((texts) => texts.length)).toEqual([2, 2, 2, 2]);
  expect(await lengths(0, 3)).toEqual([4]);
  // Sent at 0, but the one before was back at 3.
  expect(await lengths(1, 9)).toEqual([4, 4]);
  expect(await lengths(2, 16)).toEqual([4, 4, 2]);
  const elsewhere = call('elsewhere', '{p01}');
  await turn();
  expect(await lengths(3, 17)).toEqual([4, 4, 2, 1, 2]);
  ended[7]?.();
  await elsewhere;
  expect(await lengths(8, 18)).toEqual([4, 4, 2, 1, 2, 4]);
  ended.forEach((end) => end());
  await turn();
  await turn();
  ended.forEach((end) => end());
  expect(await Promise.all(answers)).toEqual(answers.map((_, index) => [String(index)]));
  clock.mockRestore();
});
