import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { StoreUnavailable } from '../../src/redis/errors.js';
import { GroupedCalls } from '../../src/redis/grouped-calls.js';
import type { Script } from '../../src/redis/script-source.js';

const SCRIPT = { functionName: 'probe', header: { group: 2 } } as unknown as Script;

/** Runs that take as long as the test wants, and answer each call with its first argument. */
function slowRuns(waitMs?: number) {
  const ended: ((error?: Error) => void)[] = [];
  const sizes: number[] = [];
  const calls = new GroupedCalls(
    async (_, __, args) => {
      const count = args.at(-1) as number;
      await new Promise<void>((resolve, reject) => {
        ended.push((error) => (error === undefined ? resolve() : reject(error)));
      });
      return args.slice(0, count) as string[];
    },
    (_, size) => sizes.push(size),
    waitMs,
  );
  return { calls, ended, sizes, call: (text: string) => calls.call(SCRIPT, ['{p00}k'], [text]) };
}

test('a call that has waited too long is refused and not sent', async () => {
  const { call, ended, sizes } = slowRuns(50);
  const first = call('a');
  const second = call('b');
  const refused = expect(second).rejects.toEqual(new StoreUnavailable('timeout'));
  await delay(100);
  const third = call('c');
  ended[0]?.();
  expect(await first).toEqual(['a']);
  await refused;
  ended[1]?.();
  expect(await third).toEqual(['c']);
  expect(sizes).toEqual([1, 1]);
});

test('those that wait fail with a run that did not reach Redis, but not with a run that broke', async () => {
  const { call, ended } = slowRuns();
  const [first, second] = [call('a'), call('b')].map((reply) =>
    expect(reply).rejects.toThrow('cannot be reached'),
  );
  ended[0]?.(new StoreUnavailable('connection'));
  await Promise.all([first, second]);

  const broken = expect(call('c')).rejects.toThrow('broken');
  const sound = call('d');
  ended[1]?.(new Error('broken'));
  await broken;
  ended[2]?.();
  expect(await sound).toEqual(['d']);
});
