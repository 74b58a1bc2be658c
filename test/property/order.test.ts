import { describe, expect, test } from '@jest/globals';
import { type Loss, momentsOf, withLosses } from '../support/history/crashes.js';
import { explain, type Attempt, type Model } from '../support/history/order.js';
import { tenantModel, type LedgerRequest } from '../support/history/tenant-model.js';

/** A register: the smallest thing that clients can share. */
type Access = { write: number } | 'read';
const REGISTER: Model<number, Access> = {
  initial: 0,
  apply: (state, access) =>
    access === 'read' ? { state, answer: String(state) } : { state: access.write, answer: 'ok' },
  nameOf: String,
};
const write = (value: number, from: number, to: number): Attempt<Access> => ({
  request: { write: value },
  sentAt: from,
  answeredAt: to,
  ...(to === Infinity ? {} : { answer: 'ok' }),
});
const read = (seen: number, from: number, to: number): Attempt<Access> => ({
  request: 'read',
  sentAt: from,
  answeredAt: to,
  answer: String(seen),
});

describe('histories of a register', () => {
  test.each<[string, 'explained' | 'violated', Attempt<Access>[]]>([
    ['nothing happened', 'explained', []],
    ['a read sees what was written before', 'explained', [write(1, 0, 1), read(1, 2, 3)]],
    ['a read misses what was written before', 'violated', [write(1, 0, 1), read(0, 2, 3)]],
    ['a read sees what is written at the same time', 'explained', [write(1, 0, 10), read(1, 2, 3)]],
    ['a read does not see it yet', 'explained', [write(1, 0, 10), read(0, 2, 3)]],
    [
      'a later read sees less than an earlier one',
      'violated',
      [write(1, 0, 10), read(1, 2, 3), read(0, 4, 5)],
    ],
    ['two concurrent reads see either', 'explained', [write(1, 0, 10), read(1, 2, 5), read(0, 3, 6)]],
    [
      'two concurrent writes, in the order that reads show',
      'explained',
      [write(1, 0, 9), write(2, 1, 8), read(2, 10, 11)],
    ],
    ['and in the other one', 'explained', [write(1, 0, 9), write(2, 1, 8), read(1, 10, 11)]],
    [
      'reads that show both orders',
      'violated',
      [write(1, 0, 9), write(2, 1, 8), read(1, 10, 11), read(2, 12, 13)],
    ],
    ['a write without a response took effect', 'explained', [write(1, 0, Infinity), read(1, 5, 6)]],
    ['a write without a response did not', 'explained', [write(1, 0, Infinity), read(0, 5, 6)]],
    [
      'a write without a response took effect late',
      'explained',
      [write(1, 0, Infinity), read(0, 5, 6), read(1, 7, 8)],
    ],
    ['but not before it was sent', 'violated', [read(1, 0, 1), write(1, 2, Infinity)]],
    ['and not twice', 'violated', [write(1, 0, Infinity), read(1, 1, 2), write(2, 3, 4), read(1, 5, 6)]],
    ['a read of a value that nobody wrote', 'violated', [write(1, 0, 1), read(7, 2, 3)]],
    [
      'an operation may start at the instant of an earlier response',
      'explained',
      [write(1, 0, 1), read(0, 1, 2)],
    ],
  ])('%s: %s', (_, word, history) => {
    expect(explain(history, REGISTER).word).toBe(word);
  });

  test('a verdict names the order, or, if there is none, what does not fit', () => {
    const explained = explain([read(1, 2, 3), write(1, 0, 10)], REGISTER);
    expect(explained).toMatchObject({ order: [{ request: { write: 1 } }, { request: 'read' }] });
    const violated = explain([write(1, 0, 1), read(0, 2, 3)], REGISTER);
    expect(violated).toMatchObject({
      order: [{ request: { write: 1 } }],
      next: ['"read": got 0, would get 1'],
    });
  });

  test('a search that would take too long reports that it did not finish, and no state is visited twice', () => {
    const writes = Array.from({ length: 9 }, (_, index) => write(index + 1, 0, 100));
    const history = [...writes, read(99, 101, 102)];
    expect(explain(history, REGISTER, 500)).toEqual({ word: 'undecided', states: 501 });
    // The states are the subsets of the writes with the last write of each; there are 362,880 orders.
    expect(explain(history, REGISTER, 9 * 2 ** 8).word).toBe('violated');
  });
});

describe('histories of a ledger', () => {
  const MODEL = tenantModel({ '': 10, a: 10, b: 10 }, new Set(['r1']));
  const attempt = (
    request: LedgerRequest,
    [sentAt, answeredAt]: [number, number],
    answer?: string,
  ): Attempt<LedgerRequest> => ({ request, sentAt, answeredAt, ...(answer === undefined ? {} : { answer }) });
  const reserve = (key: string, workspace: string, amount: number): LedgerRequest => ({
    kind: 'reserve',
    key,
    workspace,
    amount,
  });
  const commit = (key: string, hold: string, amount: number): LedgerRequest => ({
    kind: 'commit',
    key,
    hold,
    amount,
  });
  const FIVE = 'COMMITTED :5,0,5,10 a:5,0,5,10';
  const SIX = 'ALLOW :4,6,0,10 a:4,6,0,10';

  test.each<[string, 'explained' | 'violated', Attempt<LedgerRequest>[]]>([
    [
      'of two concurrent reserves, one gets the rest of the root',
      'explained',
      [
        attempt(reserve('r1', 'a', 6), [0, 5], SIX),
        attempt(reserve('r2', 'b', 6), [1, 4], 'BUDGET_EXCEEDED'),
      ],
    ],
    [
      'both get it',
      'violated',
      [
        attempt(reserve('r1', 'a', 6), [0, 5], SIX),
        attempt(reserve('r2', 'b', 6), [1, 4], 'ALLOW :-2,12,0,10 b:4,6,0,10'),
      ],
    ],
    ['a refusal without a reason', 'violated', [attempt(reserve('r1', 'a', 6), [0, 5], 'BUDGET_EXCEEDED')]],
    [
      'a repetition gets the first reply, although a commit came in between',
      'explained',
      [
        attempt(reserve('r1', 'a', 6), [0, Infinity]),
        attempt(reserve('r1', 'a', 6), [1, 2], SIX),
        attempt(commit('c1', 'r1', 5), [3, 4], 'COMMITTED :5,0,5,10 a:5,0,5,10'),
        attempt(reserve('r1', 'a', 6), [5, 6], SIX),
      ],
    ],
    [
      'a repetition holds twice',
      'violated',
      [
        attempt(reserve('r1', 'a', 3), [0, Infinity]),
        attempt(reserve('r1', 'a', 3), [1, 2], 'ALLOW :4,6,0,10 a:4,6,0,10'),
      ],
    ],
    [
      'a hold ends twice',
      'violated',
      [
        attempt(reserve('r1', 'a', 6), [0, 1], SIX),
        attempt(commit('c1', 'r1', 5), [2, 5], 'COMMITTED :5,0,5,10 a:5,0,5,10'),
        attempt({ kind: 'release', key: 'l1', hold: 'r1' }, [3, 4], 'RELEASED :10,0,0,10 a:10,0,0,10'),
      ],
    ],
    [
      'a commit without a reply took effect before a release was refused',
      'explained',
      [
        attempt(reserve('r1', 'a', 6), [0, 1], SIX),
        attempt(commit('c1', 'r1', 5), [2, Infinity]),
        attempt({ kind: 'release', key: 'l1', hold: 'r1' }, [3, 4], 'RESERVATION_FINALIZED'),
        attempt({ kind: 'fund', key: 'f1', amount: 5 }, [5, 6], 'FUNDED 15 10'),
      ],
    ],
    [
      'an extension is forgotten',
      'violated',
      [
        attempt(reserve('r1', 'a', 6), [0, 1], SIX),
        attempt({ kind: 'extend', key: 'x1', hold: 'r1', byMs: 7 }, [2, 3], 'ACTIVE +7'),
        attempt({ kind: 'extend', key: 'x2', hold: 'r1', byMs: 5 }, [4, 5], 'ACTIVE +5'),
      ],
    ],
  ])('%s: %s', (_, word, history) => {
    expect(explain(history, MODEL).word).toBe(word);
  });

  test.each<[string, 'explained' | 'violated', Attempt<LedgerRequest>[]]>([
    ['nothing was lost', 'explained', [attempt(commit('c1', 'r1', 5), [9, 10], FIVE)]],
    [
      'a commit was lost that the replica did not have',
      'explained',
      [attempt(commit('c1', 'r1', 5), [5, 6], FIVE), attempt(commit('c2', 'r1', 5), [9, 10], FIVE)],
    ],
    [
      'a commit was lost that the replica had',
      'violated',
      [attempt(commit('c1', 'r1', 5), [2, 3], FIVE), attempt(commit('c2', 'r1', 5), [9, 10], FIVE)],
    ],
    [
      'a commit was lost after the replica took over',
      'violated',
      [attempt(commit('c1', 'r1', 5), [9, 10], FIVE), attempt(commit('c2', 'r1', 5), [11, 12], FIVE)],
    ],
    [
      'the earlier of two was lost, and the later one was not',
      'violated',
      [
        attempt(reserve('r2', 'b', 1), [5, 5.2], 'ALLOW :3,7,0,10 b:9,1,0,10'),
        attempt(commit('c1', 'r1', 5), [5.3, 5.6], 'COMMITTED :4,1,5,10 a:5,0,5,10'),
        attempt({ kind: 'release', key: 'l2', hold: 'r2' }, [9, 10], 'NOT_FOUND'),
        attempt({ kind: 'release', key: 'l1', hold: 'r1' }, [11, 12], 'RESERVATION_FINALIZED'),
      ],
    ],
  ])('with a master that was killed, %s: %s', (_, word, history) => {
    const all = [attempt(reserve('r1', 'a', 6), [0, 1], SIX), ...history];
    const moments = momentsOf({ keptUntil: 4, killedAt: 7, replacedAt: 8 });
    const model = withLosses(MODEL);
    expect(
      explain<Parameters<typeof model.nameOf>[0], LedgerRequest | Loss>([...all, ...moments], model).word,
    ).toBe(word);
  });
});
