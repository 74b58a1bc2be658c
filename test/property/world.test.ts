import { afterEach, expect, test } from '@jest/globals';
import { mutate } from '../../scripts/mutants/mutate.mjs';
import { seedFrom } from '../../scripts/seed.mjs';
import { World, type WorldOptions } from './world.js';

/**
 * The service in one process, one command at a time, with faults in between. The seed is printed and
 * determines everything; PLAY_SEED=<seed> repeats a play. `npm run play` plays PLAY_STEPS steps.
 */
const seed = seedFrom('PLAY_SEED', 'play of the service');
const steps = Number(process.env['PLAY_STEPS'] ?? 2000);
const STEP_LIMIT_MS = 50;
/** A play of this many steps reaches everything, whatever its seed. */
const COMES_TO_ALL = 20_000;
const ALL_ELSE = [
  ...['extend', 'get_reservation', 'expire_page', 'plan_retry', 'due_retries', 'pack_records'],
  ...['trim_event_log', 'trim_audit_log', 'trim_reservation_index', 'reconcile'],
  ...['kill', 'lost replies', 'late reply', 'late command', 'stray command', 'full Redis', 'failover'],
  ...['refused because Redis is full', 'post refused', 'post lost'],
];

let world: World | undefined;
afterEach(async () => {
  await world?.stop();
  world = undefined;
});

async function start(options: WorldOptions): Promise<World> {
  await world?.stop();
  world = await World.start(options);
  return world;
}

test(
  'whatever fails in between, everything stored, emitted and delivered is as the model says',
  async () => {
    const played = await start({ seed });
    await played.run(steps);
    const { counts } = played;
    process.stdout.write(
      `  ${steps} steps: ${[...counts]
        .sort()
        .map(([what, times]) => `${what} ${times}`)
        .join(', ')}\n`,
    );
    const words = [
      ...[
        'run of several calls',
        'reserve',
        'commit',
        'release',
        'direct_debit',
        'fund_budget',
        'settle_delivery',
        'calm',
      ],
      ...(steps < COMES_TO_ALL ? [] : ALL_ELSE),
    ];
    expect(words.filter((word) => !counts.has(word))).toEqual([]);
  },
  Math.max(60_000, steps * STEP_LIMIT_MS),
);

test('a seed repeats a play, command by command', async () => {
  const digests: string[] = [];
  for (let count = 0; count < 2; count += 1) {
    const played = await start({ seed });
    await played.run(300);
    digests.push(played.digest.digest('hex'));
  }
  expect(digests[0]).toBe(digests[1]);
}, 60_000);

test.each([
  ['reserve', 'budget.remaining_figure < wanted', 'false', 'reply: got'],
  [
    'expire_page',
    'return hold.expires_at + hold.grace_ms',
    'return hold.expires_at',
    // Whichever comes first in this play: the sweeper or the reconciler.
    /reply: got|must not emit custom.reservation.reindexed/,
  ],
  ['due_retries', 'if tonumber(entries[i + 1]) > now then', 'if true then', 'not delivered'],
  ['trim_event_log', 'math.max(0, now - age_ms)', 'now', 'left the log too early'],
] as const)(
  'a play notices that %s omits something: %s',
  async (name, find, put, found) => {
    const played = await start({
      seed: 2,
      change: (library) => mutate(library, { what: name, find, put }),
    });
    await expect(played.run(3000)).rejects.toThrow(found);
  },
  120_000,
);
