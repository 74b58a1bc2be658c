import { describe, expect, test } from '@jest/globals';
import {
  tenantKey,
  webhookChangesKey,
  webhookIndexKey,
  webhookKey,
  webhookRevisionKey,
} from '../../src/redis/keyspace.js';
import { randomText, TRACE, type LedgerClient } from '../support/ledger-client.js';
import { commandsOf } from '../support/script-commands.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const ORIGIN = ['api_key', 'key_1', 'req_webhook', TRACE] as const;

interface Part {
  readonly word: string;
  readonly next: string;
  /** The fields of each subscription by id; empty for one that is no longer active. */
  readonly found: Map<string, string[]>;
}

async function made(
  ledger: LedgerClient,
  count: number,
  fields: Record<string, string> = {},
): Promise<string[]> {
  const ids = Array.from({ length: count }, () => `whsub_${ledger.tag.slice(2, 4)}${randomText(16)}`).sort();
  const { tag, tenant } = ledger;
  for (const id of ids) {
    await ledger.scripts.run(
      'create_webhook',
      [webhookKey(tag, id), webhookIndexKey(tag, tenant), tenantKey(tag, tenant)],
      [
        tenant,
        id,
        'reservation.expired',
        '',
        'createTenantWebhook',
        ...ORIGIN,
        0,
        ...Object.entries({ ur: 'https://a.example', se: 's', rp: '1', df: '1', ...fields }).flat(),
      ],
    );
  }
  return ids;
}

async function owned(): Promise<LedgerClient> {
  const ledger = await newLedger();
  await ledger.makeTenant();
  return ledger;
}

async function ask(
  ledger: LedgerClient,
  ...owners: (readonly [owner: string, known: string, after: string])[]
): Promise<{ revision: string; parts: Part[] }> {
  const [revision = '', ...rest] = await ledger.scripts.run(
    'webhook_targets',
    [webhookRevisionKey(ledger.tag)],
    owners.flat(),
  );
  const parts: Part[] = [];
  for (let at = 0; at < rest.length;) {
    const found = new Map<string, string[]>();
    let place = at + 3;
    for (let left = Number(rest[at + 2]); left > 0; left -= 1) {
      const end = place + 2 + Number(rest[place + 1]);
      found.set(rest[place] as string, rest.slice(place + 2, end));
      place = end;
    }
    parts.push({ word: rest[at] as string, next: rest[at + 1] as string, found });
    at = place;
  }
  return { revision, parts };
}

async function askOne(ledger: LedgerClient, known = '', after = ''): Promise<Part & { revision: string }> {
  const { revision, parts } = await ask(ledger, [ledger.tenant, known, after]);
  return { revision, ...(parts[0] as Part) };
}

const change = (ledger: LedgerClient, id: string, status: string): Promise<unknown> =>
  ledger.scripts.run(
    'update_webhook',
    [webhookKey(ledger.tag, id)],
    [ledger.tenant, id, status, 's', '', 1, 'updateTenantWebhook', ...ORIGIN],
  );
const remove = (ledger: LedgerClient, id: string): Promise<unknown> =>
  ledger.scripts.run(
    'delete_webhook',
    [webhookKey(ledger.tag, id)],
    [ledger.tenant, id, 'deleteTenantWebhook', ...ORIGIN],
  );

describe('the whole list of an owner', () => {
  test('is read a hundred at a time, and continues after a deleted one', async () => {
    const ledger = await owned();
    const ids = await made(ledger, 250);
    const first = await askOne(ledger);
    expect([first.word, first.next, [...first.found.keys()]]).toEqual(['ALL', ids[99], ids.slice(0, 100)]);
    await remove(ledger, ids[99] as string);
    const second = await askOne(ledger, first.revision, first.next);
    expect([second.word, [...second.found.keys()]]).toEqual(['ALL', ids.slice(100, 200)]);
    const third = await askOne(ledger, first.revision, second.next);
    expect([third.word, third.next, [...third.found.keys()]]).toEqual(['ALL', '', ids.slice(200)]);
    const caughtUp = await askOne(ledger, first.revision);
    expect([caughtUp.word, caughtUp.next, [...caughtUp.found]]).toEqual(['CHANGED', '', [[ids[99], []]]]);
  });

  test('is read in portions of 256 KiB, without description and metadata', async () => {
    const ledger = await owned();
    const ids = await made(ledger, 6, {
      hd: 'x'.repeat(100_000),
      md: 'x'.repeat(1_048_576),
      ds: 'd',
      th: '{"rate_window_seconds":60}',
    });
    const commands = await commandsOf(ledger.redis, ledger.tag, () => askOne(ledger));
    expect(commands.map(([name]) => name)).not.toContain('HGETALL');
    const first = await askOne(ledger);
    expect([first.next, [...first.found.keys()]]).toEqual([ids[2], ids.slice(0, 3)]);
    const names = (first.found.get(ids[0] as string) ?? []).filter((_text, index) => index % 2 === 0);
    expect(names.filter((name) => ['md', 'ds', 'th'].includes(name))).toEqual(['th']);
    expect([...(await askOne(ledger, first.revision, first.next)).found.keys()]).toEqual(ids.slice(3));
  });

  test('omits what is not active', async () => {
    const ledger = await owned();
    const [one, two] = (await made(ledger, 2)) as [string, string];
    await change(ledger, one, 'PAUSED');
    expect([...(await askOne(ledger)).found.keys()]).toEqual([two]);
  });
});

describe('what changed since the list was read', () => {
  test('is all that is read, once for each subscription', async () => {
    const ledger = await owned();
    const [one, two, three] = (await made(ledger, 3)) as [string, string, string];
    const { revision } = await askOne(ledger);
    expect((await askOne(ledger, revision)).found.size).toBe(0);
    await change(ledger, three, 'PAUSED');
    await change(ledger, one, 'PAUSED');
    await change(ledger, one, 'ACTIVE');
    let part: Part | undefined;
    const commands = await commandsOf(ledger.redis, ledger.tag, async () => {
      part = await askOne(ledger, revision);
    });
    expect(part?.word).toBe('CHANGED');
    expect([...(part?.found ?? [])].map(([id, fields]) => [id, fields.length > 0])).toEqual([
      [three, false],
      [one, true],
    ]);
    expect(commands.flat()).not.toContain(webhookKey(ledger.tag, two));
  });

  test('is read a hundred at a time, and continues at a revision', async () => {
    const ledger = await owned();
    const { revision } = await askOne(ledger);
    const ids = await made(ledger, 130);
    const first = await askOne(ledger, revision);
    expect([first.word, first.found.size]).toEqual(['CHANGED', 100]);
    const second = await askOne(ledger, first.next);
    expect([second.word, second.next, second.found.size]).toEqual(['CHANGED', '', 30]);
    expect([...first.found.keys(), ...second.found.keys()].sort()).toEqual(ids);
  });

  test('is unknown after two thousand changes, or if the store went back to an earlier state: then everything is read', async () => {
    const ledger = await owned();
    await made(ledger, 1);
    const { revision } = await askOne(ledger);
    const changes = webhookChangesKey(ledger.tag, ledger.tenant);
    await ledger.redis.zadd(
      changes,
      ...Array.from({ length: 1999 }, (_, index) => [Number(revision) + 1 + index, `whsub_${index}`]).flat(),
    );
    await ledger.redis.set(webhookRevisionKey(ledger.tag), Number(revision) + 2000);
    await made(ledger, 1);
    expect(await ledger.redis.zcard(changes)).toBe(2000);
    expect((await askOne(ledger, revision)).word).toBe('ALL');
    expect((await askOne(ledger, String(Number(revision) + 1000))).word).toBe('CHANGED');
    expect((await askOne(ledger, String(Number(revision) + 5000))).word).toBe('ALL');
    expect(await ledger.redis.pttl(changes)).toBeGreaterThan(0);
  });
});

test('of many owners, as many are returned as fit into a run', async () => {
  const ledger = await owned();
  await made(ledger, 100);
  const nobody = Array.from({ length: 120 }, (_, index) => [`nobody-${index}`, '', ''] as const);
  expect((await ask(ledger, ...nobody)).parts).toHaveLength(100);
  expect((await ask(ledger, [ledger.tenant, '', ''], ...nobody)).parts).toHaveLength(1);
});
