import { expect, test } from '@jest/globals';
import type { Answer } from '../../src/answers/index.js';

type Replay = Answer<'WebhookReplayResponse'>;

// The type check is the test: it fails where a line below an expected error compiles.
test('an answer that differs from its schema does not compile', () => {
  const right: Replay = { replay_id: 'rpl_1', events_queued: 1 };
  // @ts-expect-error -- it lacks a member
  const short: Replay = { replay_id: 'rpl_1' };
  // @ts-expect-error -- a count is no text
  const text: Replay = { replay_id: 'rpl_1', events_queued: '1' };
  // @ts-expect-error -- the schema has no such member
  const long: Replay = { replay_id: 'rpl_1', events_queued: 1, more: 1 };
  // @ts-expect-error -- a reference is followed: no amount without a unit
  const inner: Answer<'CommitResponse'> = { status: 'COMMITTED', charged: { amount: 1 }, balances: [] };
  expect([right, short, text, long, inner]).toHaveLength(5);
});
