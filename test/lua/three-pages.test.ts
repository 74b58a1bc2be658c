import { describe, expect, test } from '@jest/globals';
import {
  apiKeyExpiryKey,
  apiKeyIndexKey,
  auditLogKey,
  cleanupIndexKey,
  closingKey,
  journalKey,
  eventLogKey,
  ownedKey,
  periodIndexKey,
  reservationIndexKey,
  tenantEventsKey,
  tenantIndexKey,
  tenantKey,
  ttlIndexKey,
} from '../../src/redis/keyspace.js';
import { clockAt } from '../support/fixed-clock.js';
import { createKey, newKey, revoke, rollOver } from '../support/governance-client.js';
import { type LedgerClient, RETENTION_MS, TRACE } from '../support/ledger-client.js';
import { readLedger } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

/**
 * Every pass that goes on over several pages: what it works off has one and the same millisecond, the reply to each page is lost once,
 * so that somebody repeats the page from where it began, and something changes after the first page.
 */

const newLedger = useLedger();
const NOW = Date.UTC(2100, 0, 1);
const DAY_MS = 86_400_000;
const COUNT = 8;
const PAGE = 3;

/** Where a pass goes on; undefined at its end. */
type Place = readonly string[] | undefined;

interface Pass {
  /** Makes what the pass works off, and returns its names. */
  readonly make: (ledger: LedgerClient) => Promise<string[]>;
  readonly page: (ledger: LedgerClient, place: readonly string[]) => Promise<Place>;
  /** What somebody else does after the first page. */
  readonly between: (ledger: LedgerClient, names: readonly string[]) => Promise<unknown>;
  /** What the pass has done, each thing as often as it did it. */
  readonly done: (ledger: LedgerClient, names: readonly string[]) => Promise<string[]>;
  /** By default, every thing once. */
  readonly expected?: (names: readonly string[]) => readonly string[];
}

const numbers = Array.from({ length: COUNT }, (_, index) => index);

async function holds(ledger: LedgerClient, tenant: Record<string, string> = {}): Promise<string[]> {
  await ledger.makeTenant(tenant);
  await ledger.makeBudget({ allocated: 1000 });
  await ledger.redis.zadd(tenantIndexKey(ledger.tag), 1, ledger.tenant);
  const ids: string[] = [];
  for (const _ of numbers) {
    ids.push((await ledger.hold({ amount: 10, graceMs: 0 })).id);
  }
  return ids;
}

/** What the events of a type are about. */
const told = async (ledger: LedgerClient, type: string, about: string): Promise<string[]> =>
  (await readLedger(ledger)).events
    .filter(({ fields }) => fields['ty'] === type)
    .map(({ fields }) => fields[about] as string);

const after = (ledger: LedgerClient, ms: number): LedgerClient => clockAt(ledger, NOW + ms);
/** Past the leases of `holds`. */
const LATE_MS = 700_000;
const DUE = String(NOW - RETENTION_MS);

/** Entries of a stream with the same time. */
async function entries(ledger: LedgerClient, key: string): Promise<string[]> {
  const ids = numbers.map((index) => `${NOW - 2 * RETENTION_MS}-${index}`);
  for (const id of ids) {
    await ledger.redis.xadd(
      key,
      id,
      'ty',
      'budget.created',
      'tn',
      ledger.tenant,
      'op',
      'x',
      'rq',
      `req_${id}`,
    );
  }
  return ids;
}

const streamLeft = async (ledger: LedgerClient, key: string): Promise<string[]> =>
  (await ledger.redis.xrange(key, '-', '+')).map(([id]) => id);

const next = (more: string | undefined): Place => (more === '1' ? [] : undefined);

const PASSES: Record<string, Pass> = {
  'packing of ended records': {
    make: async (ledger) => {
      const ids = await holds(ledger);
      for (const id of ids) {
        await ledger.release(id);
      }
      return ids;
    },
    page: async ({ scripts, tag }) => {
      const reply = await scripts.run('pack_records', [journalKey(tag)], [PAGE]);
      return reply[3] === '0' ? undefined : [];
    },
    // The record of a later page is gone before the pass comes to it.
    between: (ledger, names) => ledger.redis.del(ledger.reservationKeyOf(names[COUNT - 1] as string)),
    // A packed record has its fields in one.
    done: async (ledger, names) => {
      const sizes = await Promise.all(names.map((id) => ledger.redis.hlen(ledger.reservationKeyOf(id))));
      return names.filter((_, index) => [1, 2, 3].includes(sizes[index] as number));
    },
    expected: (names) => names.slice(0, COUNT - 1),
  },
  'trimming of the event log': {
    make: async (ledger) => {
      const ids = await entries(ledger, eventLogKey(ledger.tag));
      await entries(ledger, tenantEventsKey(ledger.tag, ledger.tenant));
      return ids;
    },
    page: async ({ scripts, tag }) =>
      next((await scripts.run('trim_event_log', [eventLogKey(tag)], [RETENTION_MS, RETENTION_MS, PAGE]))[2]),
    between: ({ redis, tag }) => redis.xadd(eventLogKey(tag), `${DUE}-0`, 'ty', 'budget.created', 'tn', 'x'),
    done: async (ledger, names) => {
      const left = [
        ...(await streamLeft(ledger, eventLogKey(ledger.tag))),
        ...(await streamLeft(ledger, tenantEventsKey(ledger.tag, ledger.tenant))),
      ];
      return [...names.filter((id) => !left.includes(id)), ...left];
    },
    // What is exactly as old as the retention stays.
    expected: (names) => [...names, `${DUE}-0`],
  },
  'trimming of the audit log': {
    make: (ledger) => entries(ledger, auditLogKey(ledger.tag)),
    page: async ({ scripts, tag }) =>
      next((await scripts.run('trim_audit_log', [auditLogKey(tag)], ['audit', RETENTION_MS, PAGE]))[2]),
    between: ({ redis, tag }) => redis.xadd(auditLogKey(tag), `${DUE}-0`, 'op', 'x', 'tn', 'x'),
    done: async (ledger, names) => {
      const left = await streamLeft(ledger, auditLogKey(ledger.tag));
      return [...names.filter((id) => !left.includes(id)), ...left];
    },
    expected: (names) => [...names, `${DUE}-0`],
  },
  'trimming of a list of reservations': {
    make: async (ledger) => {
      const ids = (await holds(ledger)).sort();
      await ledger.redis.zadd(
        reservationIndexKey(ledger.tag, ledger.tenant),
        ...ids.flatMap((id) => [NOW - 2 * RETENTION_MS, id]),
      );
      // The record of every second one is gone.
      await ledger.redis.del(
        ...ids.filter((_, index) => index % 2 === 0).map(ledger.reservationKeyOf, ledger),
      );
      return ids;
    },
    page: async ({ scripts, tag }, [tenant = '', ms = '', id = '']) => {
      const reply = await scripts.run(
        'trim_reservation_index',
        [tenantIndexKey(tag)],
        [tenant, ms, id, PAGE, RETENTION_MS],
      );
      return reply[1] === '' ? undefined : reply.slice(1, 4);
    },
    // The entry at which the pass goes on.
    between: ({ redis, tag, tenant }, names) =>
      redis.zrem(reservationIndexKey(tag, tenant), names[2] as string),
    done: async ({ redis, tag, tenant }, names) => {
      const left = await redis.zrange(reservationIndexKey(tag, tenant), '0', '-1');
      return names.filter((id) => !left.includes(id));
    },
    expected: (names) => names.filter((_, index) => index % 2 === 0),
  },
  'a walk of the reconciler': {
    make: async (ledger) => {
      const ids = (await holds(ledger)).sort();
      await ledger.redis.del(ttlIndexKey(ledger.tag));
      await ledger.redis.hset(ownedKey(ledger.tag, ledger.tenant), 'live', '3');
      return ids;
    },
    page: async (ledger, [tenant = '', ms = '', id = '', tally = '']) => {
      // The step to the first tenant counts as ten entries.
      const examine = tenant === '' ? 10 + PAGE : PAGE;
      const reply = await after(ledger, tenant === '' ? 1000 : 3000).scripts.run(
        'reconcile',
        [tenantIndexKey(ledger.tag)],
        [tenant, ms, id, tally, examine, RETENTION_MS, TRACE],
      );
      return reply[2] === '' ? undefined : reply.slice(2, 6);
    },
    // Not yet examined, so it counts as live when the walk began.
    between: (ledger, names) => after(ledger, 2000).release(names[COUNT - 1] as string),
    done: async (ledger) => [
      ...(await told(ledger, 'custom.reservation.reindexed', 'reservation_id')),
      `live ${await ledger.redis.hget(ownedKey(ledger.tag, ledger.tenant), 'live')}`,
    ],
    expected: (names) => [...names.slice(0, COUNT - 1), `live ${COUNT - 1}`],
  },
  'the end of periods, eleven boundaries at once': {
    make: async (ledger) => {
      await ledger.makeTenant();
      const scopes = numbers.map((index) => ledger.scope({ workspace: `w${index}` }));
      for (const scope of scopes) {
        await ledger.makeBudget({ scope });
        await ledger.redis.hset(ledger.budgetKeyOf(scope), {
          ...{ extras: '1', tenant_id: ledger.tenant, ledger_id: 'ldg_1', rollover_policy: 'NONE' },
          ...{ period_start: NOW - DAY_MS, period_end: NOW, period_allocated: '1000' },
        });
        await ledger.redis.zadd(periodIndexKey(ledger.tag), NOW, `${scope} TOKENS`);
      }
      return scopes;
    },
    page: async (ledger) => {
      const reply = await rollOver(after(ledger, 10 * DAY_MS), PAGE);
      return next(reply[7]);
    },
    // A budget of a later page is used before the pass comes to it.
    between: (ledger) => after(ledger, 10 * DAY_MS).reserve({ subject: { workspace: `w${COUNT - 1}` } }),
    done: async (ledger) => {
      const events = (await readLedger(ledger)).events.filter(
        ({ fields }) => fields['ty'] === 'budget.reset_spent',
      );
      const periods = new Map<string, number>();
      for (const { fields } of events) {
        const scope = fields['sc'] as string;
        periods.set(scope, (periods.get(scope) ?? 0) + Number(fields['periods']));
      }
      return [...periods].map(([scope, passed]) => `${scope} ${passed}`);
    },
    expected: (names) => names.map((scope) => `${scope} 11`),
  },
  'the announcement of expired API keys': {
    make: async (ledger) => {
      await ledger.makeTenant();
      const ids: string[] = [];
      for (const _ of numbers) {
        const key = newKey(ledger);
        await createKey(ledger, key, NOW + 1000);
        ids.push(key.id);
      }
      expect(await ledger.redis.zcard(apiKeyIndexKey(ledger.tag, ledger.tenant))).toBe(COUNT);
      // In the order of the pass: all have the same time.
      return ids.sort();
    },
    page: async (ledger) =>
      next(
        (await after(ledger, 1000).scripts.run('expire_api_keys', [apiKeyExpiryKey(ledger.tag)], [PAGE]))[2],
      ),
    between: (ledger, names) => revoke(ledger, names[COUNT - 1] as string),
    done: (ledger) => told(ledger, 'api_key.expired', 'key_id'),
    // One was revoked before the pass came to it.
    expected: (names) => names.slice(0, COUNT - 1),
  },
  'an operator’s cleanup': {
    make: async (ledger) => (await holds(ledger, { reservation_expiry_policy: 'MANUAL_CLEANUP' })).sort(),
    page: async (ledger, [walkedMs = '', walkedId = '']) => {
      const late = after(ledger, LATE_MS);
      const reply = await late.cleanup({ walkedMs, walkedId, examine: PAGE, limit: PAGE });
      return reply[3] === '' ? undefined : reply.slice(2, 4);
    },
    between: (ledger, names) => after(ledger, LATE_MS).release(names[COUNT - 1] as string),
    done: async (ledger) => [
      ...(await told(ledger, 'reservation.expired', 'reservation_id')),
      ...(await ledger.redis.zrange(cleanupIndexKey(ledger.tag), '0', '-1')),
    ],
    expected: (names) => names.slice(0, COUNT - 1),
  },
  'the closing of a tenant': {
    make: async (ledger) => {
      const ids = (await holds(ledger)).sort();
      await ledger.redis.hset(tenantKey(ledger.tag, ledger.tenant), 'status', 'CLOSED');
      await ledger.redis.hset(closingKey(ledger.tag), ledger.tenant, 'admin||req|trace|ACTIVE');
      return ids;
    },
    page: async ({ scripts, tag, tenant }, [phase = 'holds', cursor = '']) => {
      const reply = await scripts.run(
        'close_tenant',
        [tenantKey(tag, tenant)],
        [tenant, phase, cursor, PAGE, RETENTION_MS, 'channel'],
      );
      return reply[1] === 'budgets' ? undefined : reply.slice(1, 3);
    },
    // The sweeper comes to one first.
    between: (ledger, names) => after(ledger, LATE_MS).expire(names[COUNT - 1] as string),
    done: async (ledger) => {
      const { holds: all, budgets } = await readLedger(ledger);
      const [budget] = budgets.values();
      return [
        ...[...all].map(([id, { st }]) => `${id} ${st}`),
        `returned ${budget?.['cascade_released']}`,
        `reserved ${budget?.['reserved']}`,
      ];
    },
    expected: (names) => [
      ...names.map((id, index) => `${id} ${index === COUNT - 1 ? 'EXPIRED' : 'RELEASED'}`),
      `returned ${10 * (COUNT - 1)}`,
      'reserved 0',
    ],
  },
};

async function take(name: string, isCut: boolean): Promise<void> {
  const { make, page, between, done, expected } = PASSES[name] as Pass;
  const ledger = clockAt(await newLedger(), NOW);
  const names = await make(ledger);
  let place: Place = [];
  let pages = 0;
  while (place !== undefined) {
    const from: readonly string[] = place;
    place = await page(ledger, from);
    pages += 1;
    const isFirst = pages === 1;
    if (isCut && place !== undefined) {
      place = await page(ledger, from);
      pages += 1;
    }
    if (isFirst) {
      await between(ledger, names);
    }
  }
  expect(pages).toBeGreaterThanOrEqual(3);
  expect((await done(ledger, names)).sort()).toEqual([...(expected?.(names) ?? names)].sort());
}

describe('a pass over three pages does everything once', () => {
  test.each(Object.keys(PASSES))('%s, while something changes after the first page', (name) =>
    take(name, false),
  );

  test.each(Object.keys(PASSES))('%s, if the reply to each page is lost', (name) => take(name, true));
});
