import { describe, expect, test } from '@jest/globals';
import {
  deliveryIndexKey,
  deliveryAnswersKey,
  deliveryKey,
  dispatchLeaseKey,
  eventLogKey,
  orderedQueueKey,
  orderedQueuesKey,
  outcomesKey,
  retryingKey,
  webhookKey,
  webhookRevisionKey,
} from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import { shows } from '../compatibility/shows.js';
import { TRACE, randomText, type LedgerClient } from '../support/ledger-client.js';
import { commandsOf } from '../support/script-commands.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const LEASE_MS = 60_000;
const RETENTION_MS = 86_400_000;

/** A partition with a subscription id, and the dispatcher's calls of its scripts. */
class Dispatch {
  readonly subscription: string;
  readonly queueName: string;

  constructor(readonly ledger: LedgerClient) {
    this.subscription = `whsub_${ledger.tag.slice(2, 4)}${randomText(16)}`;
    this.queueName = `${this.subscription}:${ledger.tenant}`;
  }

  static async make(): Promise<Dispatch> {
    const dispatch = new Dispatch(await newLedger());
    await dispatch.page({ take: 1, limit: 0 });
    return dispatch;
  }

  append(type = 'reservation.denied'): Promise<string> {
    const { redis, tag, tenant } = this.ledger;
    return redis.xadd(eventLogKey(tag), '*', 'ty', type, 'tn', tenant, 'ac', 'system') as Promise<string>;
  }

  page({ token = 'mine', take = 0, after = '>', limit = 10 }): Promise<Reply> {
    const { scripts, tag } = this.ledger;
    return scripts.run(
      'dispatch_page',
      [dispatchLeaseKey(tag), eventLogKey(tag)],
      [token, LEASE_MS, take, after, limit],
    );
  }

  skip(upTo = '', entriesAdded = '', token = 'mine'): Promise<Reply> {
    const { scripts, tag } = this.ledger;
    return scripts.run('skip_events', [dispatchLeaseKey(tag), eventLogKey(tag)], [token, upTo, entriesAdded]);
  }

  queue(entryIds: string[], token = 'mine'): Promise<Reply> {
    const { scripts, tag, tenant } = this.ledger;
    const deliveries = entryIds.flatMap((entryId) => [
      entryId,
      this.subscription,
      tenant,
      'reservation.denied',
      TRACE,
    ]);
    return scripts.run(
      'queue_deliveries',
      [dispatchLeaseKey(tag), eventLogKey(tag)],
      [token, RETENTION_MS, entryIds.length, ...entryIds, ...deliveries],
    );
  }

  settle(
    entryId: string,
    outcome: 'SUCCESS' | 'RETRYING' | 'FAILED',
    { attempted = 1, status = '200', announce = 0, retryInMs = 0, answer = '' } = {},
  ): Promise<Reply> {
    const { scripts, tag } = this.ledger;
    const ref = this.ref(entryId);
    return scripts.run(
      'settle_delivery',
      [deliveryKey(tag, ref)],
      [
        ref,
        this.queueName,
        outcome,
        attempted,
        12,
        status,
        outcome === 'SUCCESS' ? '' : 'went wrong',
        retryInMs,
        announce,
        'http_5xx',
        this.subscription,
        `dlv_${entryId}`,
        `evt_${entryId}`,
        TRACE,
        'req_cause',
        answer,
      ],
    );
  }

  record(outcome: 'success' | 'failure' | 'triggered', deliveryId = ''): Promise<Reply> {
    const { scripts, tag } = this.ledger;
    return scripts.run(
      'record_delivery_outcome',
      [webhookKey(tag, this.subscription)],
      [this.subscription, outcome, deliveryId, TRACE, 'req_cause', ''],
    );
  }

  ref(entryId: string): string {
    return `${entryId}:${this.subscription}`;
  }

  delivery(entryId: string): Promise<Record<string, string>> {
    return this.ledger.redis.hgetall(deliveryKey(this.ledger.tag, this.ref(entryId)));
  }

  waiting(): Promise<string[]> {
    return this.ledger.redis.lrange(orderedQueueKey(this.ledger.tag, this.queueName), 0, -1);
  }

  async told(type: string): Promise<Record<string, string>[]> {
    const entries = await this.ledger.redis.xrange(eventLogKey(this.ledger.tag), '-', '+');
    const events = entries.map(
      ([, flat]) =>
        Object.fromEntries(
          flat.flatMap((name, index) => (index % 2 === 0 ? [[name, flat[index + 1]]] : [])),
        ) as Record<string, string>,
    );
    return events.filter(({ ty, ...rest }) => ty === type && rest['subscription_id'] === this.subscription);
  }
}

describe('dispatch_page', () => {
  test('reads new events once, and unacknowledged ones again for the holder of the lease', async () => {
    const dispatch = await Dispatch.make();
    const { redis, tag } = dispatch.ledger;
    const [first, second] = [await dispatch.append(), await dispatch.append()];
    expect((await dispatch.page({})).slice(11)).toEqual([
      first,
      '3',
      'ty',
      'reservation.denied',
      'tn',
      dispatch.ledger.tenant,
      'ac',
      'system',
      second,
      '3',
      'ty',
      'reservation.denied',
      'tn',
      dispatch.ledger.tenant,
      'ac',
      'system',
    ]);
    expect((await dispatch.page({})).slice(11)).toEqual([]);
    expect((await dispatch.page({ after: '0' })).filter((text) => text === first || text === second)).toEqual(
      [first, second],
    );
    expect((await dispatch.page({ after: first }))[11]).toBe(second);
    await redis.del(dispatchLeaseKey(tag));
    expect((await dispatch.page({}))[0]).toBe('FREE');
    expect((await dispatch.page({ token: 'other', take: 1, limit: 0 }))[2]).toBe('taken');
    expect((await dispatch.page({}))[0]).toBe('OTHER');
    expect((await dispatch.page({ token: 'other', after: '0' }))[11]).toBe(first);
  });

  test('reports how far behind the partition is when it takes the lease', async () => {
    const dispatch = await Dispatch.make();
    const entryId = await dispatch.append();
    const [ms] = entryId.split('-');
    expect((await dispatch.page({ take: 1, limit: 0 })).slice(2)).toEqual([
      'renewed',
      '1',
      '0',
      ms,
      '0',
      '0',
      '0',
      '0-0',
      '0',
    ]);
    await dispatch.page({});
    const [lag, pending, oldestMs, , , , lastRead] = (await dispatch.page({ take: 1, limit: 0 })).slice(3);
    expect([lag, pending, oldestMs, lastRead]).toEqual(['1', '1', ms, entryId]);
    await dispatch.queue([entryId]);
    expect((await dispatch.page({ take: 1, limit: 0 })).slice(3, 9)).toEqual(['0', '0', '', '1', '0', '0']);
    await dispatch.settle(entryId, 'RETRYING', { retryInMs: -60_000 });
    expect((await dispatch.page({ take: 1, limit: 0 })).slice(6, 9)).toEqual(['0', '1', '1']);
  });
});

describe('skip_events', () => {
  /** A partition in which nobody has ever subscribed. */
  async function unwatched(): Promise<Dispatch> {
    const dispatch = await Dispatch.make();
    await dispatch.ledger.redis.del(webhookRevisionKey(dispatch.ledger.tag));
    return dispatch;
  }

  test('skips the events that exist when it is called, and none that follow', async () => {
    const dispatch = await unwatched();
    const second = [await dispatch.append(), await dispatch.append()][1] as string;
    const [word, , upTo, entriesAdded] = await dispatch.skip();
    expect([word, upTo]).toEqual(['UP_TO', second]);
    const third = await dispatch.append();
    expect((await dispatch.skip(upTo, entriesAdded))[0]).toBe('SKIPPED');
    expect((await dispatch.page({ take: 1, limit: 0 })).slice(3, 6)).toEqual(['1', '0', third.split('-')[0]]);
    expect((await dispatch.page({})).slice(11, 12)).toEqual([third]);
  });

  test('never moves the group backwards, and keeps what was read and not acknowledged', async () => {
    const dispatch = await unwatched();
    const first = await dispatch.append();
    const [, , upTo, entriesAdded] = await dispatch.skip();
    const second = await dispatch.append();
    await dispatch.page({});
    expect((await dispatch.skip(upTo, entriesAdded))[0]).toBe('SKIPPED');
    expect((await dispatch.page({})).slice(11)).toEqual([]);
    expect((await dispatch.page({ after: '0' })).filter((text) => text === first || text === second)).toEqual(
      [first, second],
    );
  });

  test('moves nothing if there is a subscription, or without the lease', async () => {
    const dispatch = await unwatched();
    const { redis, tag } = dispatch.ledger;
    const entryId = await dispatch.append();
    expect((await dispatch.skip(entryId, '1', 'other'))[0]).toBe('OTHER');
    await redis.incr(webhookRevisionKey(tag));
    expect((await dispatch.skip())[0]).toBe('WATCHED');
    expect((await dispatch.skip(entryId, '1'))[0]).toBe('WATCHED');
    await redis.del(dispatchLeaseKey(tag));
    expect((await dispatch.skip(entryId, '1'))[0]).toBe('FREE');
    expect((await dispatch.page({ take: 1 }))[11]).toBe(entryId);
  });
});

describe('queue_deliveries', () => {
  test('creates the record, its index entry and its place in the queue, and acknowledges, once, however often it is called', async () => {
    shows('at least once');
    const dispatch = await Dispatch.make();
    const { redis, tag } = dispatch.ledger;
    const entryIds = [await dispatch.append(), await dispatch.append()];
    await dispatch.page({});
    expect((await dispatch.queue(entryIds))[2]).toBe('1 2');
    const before = await redis.hgetall(deliveryKey(tag, dispatch.ref(entryIds[0] as string)));
    expect((await dispatch.queue(entryIds))[2]).toBe('0 0');
    expect(await dispatch.waiting()).toEqual(entryIds.map((entryId) => dispatch.ref(entryId)));
    expect(before).toEqual({
      st: 'PENDING',
      at: '0',
      ca: expect.stringMatching(/^\d{13}$/),
      ty: 'reservation.denied',
      tr: TRACE,
    });
    expect(await dispatch.delivery(entryIds[0] as string)).toEqual(before);
    expect(await redis.zrange(deliveryIndexKey(tag, dispatch.subscription), '0', '-1')).toEqual(
      entryIds.map((entryId) => dispatch.ref(entryId)),
    );
    expect(await redis.smembers(orderedQueuesKey(tag))).toContain(dispatch.queueName);
    expect(await redis.pttl(deliveryKey(tag, dispatch.ref(entryIds[0] as string)))).toBeGreaterThan(
      RETENTION_MS - 60_000,
    );
    expect((await dispatch.page({ after: '0' })).slice(11)).toEqual([]);
  });

  test('acknowledges an event only with the last of its deliveries, when they come in portions', async () => {
    const dispatch = await Dispatch.make();
    const { redis, scripts, tag, tenant } = dispatch.ledger;
    await dispatch.page({ take: 1, limit: 0 });
    const entryId = await dispatch.append();
    await dispatch.page({});
    const portion = (acknowledged: string[], subscription: string): Promise<Reply> =>
      scripts.run(
        'queue_deliveries',
        [dispatchLeaseKey(tag), eventLogKey(tag)],
        [
          'mine',
          RETENTION_MS,
          acknowledged.length,
          ...acknowledged,
          entryId,
          subscription,
          tenant,
          'reservation.denied',
          TRACE,
        ],
      );
    expect((await portion([], 'whsub_first'))[2]).toBe('1');
    expect((await dispatch.page({ after: '0' }))[11]).toBe(entryId);
    // Read again after a crash: the first portion creates nothing twice.
    expect((await portion([], 'whsub_first'))[2]).toBe('0');
    expect((await portion([entryId], 'whsub_second'))[2]).toBe('1');
    expect((await dispatch.page({ after: '0' })).slice(11)).toEqual([]);
    expect(
      await redis.exists(
        deliveryKey(tag, `${entryId}:whsub_first`),
        deliveryKey(tag, `${entryId}:whsub_second`),
      ),
    ).toBe(2);
  });

  test('changes nothing for a caller without the lease', async () => {
    const dispatch = await Dispatch.make();
    const entryId = await dispatch.append();
    await dispatch.page({});
    expect(await dispatch.queue([entryId], 'other')).toEqual(['NOT_HELD']);
    expect(await dispatch.waiting()).toEqual([]);
    expect((await dispatch.page({ after: '0' }))[11]).toBe(entryId);
  });

  test('changes nothing when a key is damaged', async () => {
    const dispatch = await Dispatch.make();
    const { redis, tag } = dispatch.ledger;
    const entryId = await dispatch.append();
    await dispatch.page({});
    await redis.set(orderedQueueKey(tag, dispatch.queueName), 'damaged');
    await expect(dispatch.queue([entryId])).rejects.toThrow('WRONGTYPE');
    expect(await dispatch.delivery(entryId)).toEqual({});
    await redis.del(orderedQueueKey(tag, dispatch.queueName));
    expect((await dispatch.queue([entryId]))[2]).toBe('1');
  });
});

describe('settle_delivery', () => {
  test('records a success and removes it from its queue', async () => {
    const dispatch = await Dispatch.make();
    const { redis, tag } = dispatch.ledger;
    const [entryId, next] = [await dispatch.append(), await dispatch.append()];
    await dispatch.queue([entryId, next]);
    const [word, nowMs, attempts, left] = await dispatch.settle(entryId, 'SUCCESS');
    expect([word, attempts, left]).toEqual(['SETTLED', '1', '1']);
    expect(await dispatch.delivery(entryId)).toMatchObject({
      st: 'SUCCESS',
      at: '1',
      rs: '200',
      rt: '12',
      co: nowMs,
      fa: String(Number(nowMs) - 12),
    });
    expect(await dispatch.settle(entryId, 'FAILED', { announce: 1 })).toEqual([
      'ENDED',
      expect.any(String),
      'SUCCESS',
      '1',
    ]);
    expect(await dispatch.told('system.webhook_delivery_failed')).toEqual([]);
    expect((await dispatch.settle(next, 'SUCCESS'))[3]).toBe('0');
    expect(await redis.smembers(orderedQueuesKey(tag))).not.toContain(dispatch.queueName);
  });

  test('keeps the first attempt, counts the others, and emits one event for a failure, in the same run', async () => {
    shows('delivery failed');
    const dispatch = await Dispatch.make();
    const { redis, tag } = dispatch.ledger;
    const entryId = await dispatch.append();
    await dispatch.queue([entryId]);
    const [, first] = await dispatch.settle(entryId, 'RETRYING', { status: '500', retryInMs: 1000 });
    expect(await dispatch.delivery(entryId)).toMatchObject({
      st: 'RETRYING',
      at: '1',
      nr: String(Number(first) + 1000),
      em: 'went wrong',
    });
    expect(await redis.zscore(retryingKey(tag), dispatch.ref(entryId))).toBe(String(Number(first) + 1000));
    expect(await dispatch.waiting()).toEqual([]);
    await dispatch.settle(entryId, 'FAILED', { status: '503', announce: 1 });
    const record = await dispatch.delivery(entryId);
    expect(record).toMatchObject({ st: 'FAILED', at: '2', rs: '503', fa: String(Number(first) - 12) });
    expect(record['nr']).toBeUndefined();
    expect(await redis.zscore(retryingKey(tag), dispatch.ref(entryId))).toBeNull();
    expect(await redis.zscore(outcomesKey(tag), dispatch.ref(entryId))).not.toBeNull();
    expect(await dispatch.told('system.webhook_delivery_failed')).toEqual([
      expect.objectContaining({
        tn: '__system__',
        ac: 'system',
        tr: TRACE,
        rq: 'req_cause',
        delivery_id: `dlv_${entryId}`,
        event_id: `evt_${entryId}`,
        attempts: '2',
        severity: 'warning',
      }),
    ]);
  });

  test('keeps what the endpoint answered for the last 100 deliveries that it refused', async () => {
    const dispatch = await Dispatch.make();
    const { redis, tag } = dispatch.ledger;
    const entryIds: string[] = [];
    for (let count = 0; count < 102; count += 1) {
      entryIds.push(await dispatch.append());
    }
    await dispatch.queue(entryIds);
    const refuse = (entryId: string): Promise<Reply> =>
      dispatch.settle(entryId, 'RETRYING', { status: '500', retryInMs: 60_000, answer: 'no' });
    for (const entryId of entryIds.slice(0, 100)) {
      await refuse(entryId);
    }
    // The second refusal of the first one makes it the newest.
    const [first = '', second = '', third = ''] = entryIds;
    await redis.zadd(
      deliveryAnswersKey(tag, dispatch.subscription),
      1,
      dispatch.ref(second),
      2,
      dispatch.ref(third),
    );
    await refuse(first);
    for (const entryId of entryIds.slice(100)) {
      await refuse(entryId);
    }
    const kept = await Promise.all(entryIds.map(async (entryId) => (await dispatch.delivery(entryId))['ab']));
    expect(kept.flatMap((text, index) => (text === 'no' ? [] : [index]))).toEqual([1, 2]);
    expect(await redis.pttl(deliveryAnswersKey(tag, dispatch.subscription))).toBeGreaterThan(0);
  });

  test('looks for a delivery only near the head of its queue, and never scans a long queue for a retry', async () => {
    const dispatch = await Dispatch.make();
    const { redis, tag } = dispatch.ledger;
    const entryIds: string[] = [];
    for (let count = 0; count < 150; count += 1) {
      entryIds.push(await dispatch.append());
    }
    const [retried, far, near] = [entryIds[0], entryIds[149], entryIds[50]] as [string, string, string];
    await dispatch.queue(entryIds);
    await dispatch.settle(retried, 'RETRYING', { status: '500', retryInMs: 1000 });
    const commands = await commandsOf(redis, tag, () => dispatch.settle(retried, 'SUCCESS'));
    expect(commands.map(([name]) => name)).not.toContain('LREM');
    expect((await dispatch.settle(near, 'SUCCESS'))[3]).toBe('148');
    expect((await dispatch.settle(far, 'SUCCESS'))[3]).toBe('148');
    expect(await dispatch.waiting()).toHaveLength(148);
    // When its turn comes, the dispatcher finds that it has ended and removes it.
    await redis.ltrim(orderedQueueKey(tag, dispatch.queueName), -1, -1);
    expect(await dispatch.settle(far, 'FAILED')).toEqual(['ENDED', expect.any(String), 'SUCCESS', '0']);
  });

  test('only removes a delivery whose record is gone', async () => {
    const dispatch = await Dispatch.make();
    const { redis, tag } = dispatch.ledger;
    const entryId = await dispatch.append();
    await dispatch.queue([entryId]);
    await redis.del(deliveryKey(tag, dispatch.ref(entryId)));
    expect(await dispatch.settle(entryId, 'FAILED', { announce: 1 })).toEqual([
      'GONE',
      expect.any(String),
      '0',
    ]);
    expect(await dispatch.delivery(entryId)).toEqual({});
    expect(await dispatch.told('system.webhook_delivery_failed')).toEqual([]);
  });
});

describe('record_delivery_outcome', () => {
  async function subscribed(limit: number): Promise<Dispatch> {
    const dispatch = await Dispatch.make();
    const { redis, tag, tenant } = dispatch.ledger;
    await redis.hset(webhookKey(tag, dispatch.subscription), {
      tn: tenant,
      st: 'ACTIVE',
      df: limit,
      ur: 'https://example.com',
      et: 'reservation.denied',
      ec: '',
    });
    return dispatch;
  }

  test('counts a failure once, starts over after a success, and disables the subscription at the limit with one event', async () => {
    shows('delivery disables');
    const dispatch = await subscribed(2);
    const { redis, tag, tenant } = dispatch.ledger;
    const key = webhookKey(tag, dispatch.subscription);
    expect(await dispatch.record('failure', 'dlv_1')).toEqual(['RECORDED', '1']);
    expect(await dispatch.record('failure', 'dlv_1')).toEqual(['COUNTED_BEFORE']);
    expect(await dispatch.record('success')).toEqual(['RECORDED', '0']);
    expect(await dispatch.record('failure', 'dlv_2')).toEqual(['RECORDED', '1']);
    const revision = await redis.get(webhookRevisionKey(tag));
    expect(await dispatch.record('failure', 'dlv_3')).toEqual(['DISABLED', tenant, 'consecutive_failures']);
    expect(await redis.hmget(key, 'st', 'cf', 'ld', 'ur')).toEqual([
      'DISABLED',
      '2',
      'dlv_3',
      'https://example.com',
    ]);
    expect(await redis.get(webhookRevisionKey(tag))).not.toBe(revision);
    expect(await dispatch.record('failure', 'dlv_4')).toEqual(['RECORDED', '3']);
    expect(await dispatch.told('webhook.disabled')).toEqual([
      expect.objectContaining({
        tn: tenant,
        previous_status: 'ACTIVE',
        new_status: 'DISABLED',
        tr: TRACE,
        rq: 'req_cause',
        co: `webhook_auto_disable:${dispatch.subscription}:dlv_3`,
      }),
    ]);
  });

  test('creates no record for a deleted subscription', async () => {
    const dispatch = await Dispatch.make();
    expect(await dispatch.record('success')).toEqual(['GONE']);
    expect(await dispatch.ledger.redis.exists(webhookKey(dispatch.ledger.tag, dispatch.subscription))).toBe(
      0,
    );
  });
});
