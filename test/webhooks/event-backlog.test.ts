import { expect, test } from '@jest/globals';
import {
  EventBacklog,
  type LogEntry,
  type WantedDelivery,
} from '../../src/webhooks/dispatch/event-backlog.js';

const SIZE = 50;

function entry(number: number, tenant: string): LogEntry {
  return { entryId: `1700000000000-${number}`, event: new Map([['tn', tenant]]) };
}

/** Events of a tenant, numbered from `from`. */
function entries(tenant: string, from: number, count: number): LogEntry[] {
  return Array.from({ length: count }, (_, index) => entry(from + index, tenant));
}

/** The part of a log that was read and is not acknowledged. */
class Log {
  /** Tenants whose queues are long. */
  readonly ahead = new Set<string>();
  private readonly pending = new Map<string, LogEntry>();

  read(backlog: EventBacklog, read: readonly LogEntry[]): void {
    read.forEach((one) => this.pending.set(one.entryId, one));
    backlog.add(read);
  }

  /**
   * Does what the dispatcher does: takes a batch of the backlog, or reads a page of the log again if a
   * tenant's events in memory are used up.
   */
  take(backlog: EventBacklog, deliveriesEach: number): string[] {
    const { toRefill } = backlog;
    if (toRefill !== undefined) {
      const behind = [...this.pending.values()].filter(
        ({ entryId }) => sequence(entryId) > sequence(toRefill.after),
      );
      backlog.refill(toRefill.tenant, behind.slice(0, 250));
      return [];
    }
    const { complete, deliveries } = backlog.takeBatch(
      SIZE,
      ({ entryId, event }) =>
        Array.from({ length: deliveriesEach }, () => ({
          entryId,
          subscriptionId: '',
          tenant: event.get('tn') ?? '',
          event: NO_EVENT,
        })),
      ({ tenant }) => this.ahead.has(tenant),
    );
    complete.forEach((entryId) => this.pending.delete(entryId));
    expect(deliveries.length).toBeLessThanOrEqual(SIZE);
    return deliveries.map(({ entryId, tenant }) => `${tenant} ${sequence(entryId)}`);
  }
}

const NO_EVENT = {} as WantedDelivery['event'];

function sequence(entryId: string): number {
  return Number(entryId.split('-')[1]);
}

test('tenants take turns: one event is queued within two batches, however many deliveries another tenant has waiting', () => {
  const [log, backlog] = [new Log(), new EventBacklog()];
  log.read(backlog, [...entries('busy', 0, 240), entry(240, 'quiet')]);
  const batches = [log.take(backlog, 40), log.take(backlog, 40)];
  expect(batches[0]).toHaveLength(SIZE);
  expect(batches.flat().filter((one) => one === 'quiet 240')).toHaveLength(40);
});

test('an event with more deliveries than one batch takes several, and is complete with the last', () => {
  const backlog = new EventBacklog();
  backlog.add([entry(1, 'a')]);
  const wanted = Array.from({ length: 120 }, () => ({}) as WantedDelivery);
  const batches = Array.from({ length: 3 }, () =>
    backlog.takeBatch(
      SIZE,
      () => wanted,
      () => false,
    ),
  );
  expect(batches.map(({ complete, deliveries }) => [complete.length, deliveries.length])).toEqual([
    [0, 50],
    [0, 50],
    [1, 20],
  ]);
  expect(backlog.isEmpty).toBe(true);
});

test('a tenant with more events than are kept is read again from the log, in order, each once; others are not delayed by it', () => {
  const [log, backlog] = [new Log(), new EventBacklog()];
  let next = 0;
  const seen: string[] = [];
  for (let page = 0; page < 8; page += 1) {
    log.read(backlog, entries('busy', next, 249));
    log.read(backlog, [entry(next + 249, 'quiet')]);
    next += 250;
    for (let turn = 0; turn < 4; turn += 1) {
      seen.push(...log.take(backlog, 1));
    }
    expect(seen).toContain(`quiet ${next - 1}`);
  }
  expect([backlog.hasExcess, backlog.isEmpty]).toEqual([true, false]);
  expect(backlog.oldestMs).toBeUndefined();
  for (let turn = 0; turn < 1000 && !backlog.isEmpty; turn += 1) {
    seen.push(...log.take(backlog, 1));
  }
  const numbers = seen.filter((one) => one.startsWith('busy')).map((one) => Number(one.split(' ')[1]));
  expect(numbers).toHaveLength(8 * 249);
  expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b));
  expect([backlog.isEmpty, backlog.hasExcess]).toEqual([true, false]);
});

test('the events of a tenant whose queues are long stay, in order, and others go on', () => {
  const [log, backlog] = [new Log(), new EventBacklog()];
  log.ahead.add('busy');
  log.read(backlog, [...entries('busy', 0, 3), entry(3, 'quiet')]);
  expect(log.take(backlog, 1)).toEqual(['quiet 3']);
  expect(log.take(backlog, 1)).toEqual([]);
  expect([backlog.isEmpty, backlog.hasExcess, backlog.oldestMs]).toEqual([false, true, undefined]);
  log.ahead.clear();
  expect(log.take(backlog, 1)).toEqual(['busy 0', 'busy 1', 'busy 2']);
  expect([backlog.isEmpty, backlog.hasExcess]).toEqual([true, false]);
});

test('an event stays only if the queues of all its deliveries are long', () => {
  const backlog = new EventBacklog();
  const [long, short] = [{ subscriptionId: 'long' }, { subscriptionId: 'short' }] as WantedDelivery[];
  const isAhead = ({ subscriptionId }: WantedDelivery): boolean => subscriptionId === 'long';
  backlog.add([entry(1, 'a'), entry(2, 'a')]);
  const wanted = ({ entryId }: LogEntry): WantedDelivery[] =>
    sequence(entryId) === 1 ? ([long, short] as WantedDelivery[]) : ([long] as WantedDelivery[]);
  const { complete, deliveries } = backlog.takeBatch(SIZE, wanted, isAhead);
  expect([complete.length, deliveries]).toEqual([1, [long, short]]);
});
