import { describe, expect, test } from '@jest/globals';
import { treeOrder } from '../../src/ledger/scopes.js';
import {
  apiKeyIndexKey,
  apiKeyKey,
  budgetIndexKey,
  budgetKey,
  policyIndexKey,
  policyKey,
  tenantIndexKey,
  webhookIndexKey,
  webhookKey,
} from '../../src/redis/keyspace.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { fieldsOf } from '../../src/wire/index.js';
import { commandsOf } from '../support/script-commands.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const MEGABYTE = 'x'.repeat(1_048_576);

type List = 'list_budgets' | 'list_api_keys' | 'list_policies' | 'list_webhooks';
type Kind = 'api_key' | 'policy' | 'webhook';

interface Listed {
  readonly script: List;
  readonly index: (tag: string, tenant: string) => string;
  readonly key: (tag: string, id: string) => string;
  /** The index entry of a record. */
  readonly member: (name: string) => string;
  readonly texts: readonly string[];
  /** Fields that a list shows: one that names the record, and one that may be long. */
  readonly shown: readonly [name: string, long: string];
}

const ANY_FIELD = ['own_name', 'other'] as const;

const LISTS: readonly Listed[] = [
  {
    script: 'list_budgets',
    index: budgetIndexKey,
    key: (tag, id) => budgetKey(tag, 'TOKENS', id.replaceAll('!', '/').split(' ')[0] as string),
    member: (name) => treeOrder(`tenant:t/app:${name} TOKENS`),
    texts: ['metadata', 'boundaries'],
    shown: ['ledger_id', 'commit_overage_policy'],
  },
  {
    script: 'list_api_keys',
    index: apiKeyIndexKey,
    key: apiKeyKey,
    member: (name) => `key_${name}`,
    texts: ['metadata', 'description'],
    shown: ANY_FIELD,
  },
  {
    script: 'list_policies',
    index: policyIndexKey,
    key: policyKey,
    member: (name) => `pol_${name}`,
    texts: ['description', 'caps'],
    shown: ANY_FIELD,
  },
  {
    script: 'list_webhooks',
    index: webhookIndexKey,
    key: webhookKey,
    member: (name) => `whsub_${name}`,
    texts: ['ds', 'th', 'md', 'hd'],
    shown: ANY_FIELD,
  },
];

/** Creates a record for each name, and everything else that is given. */
async function furnish(
  ledger: LedgerClient,
  { index, key, member, shown: [name] }: Listed,
  names: readonly string[],
  fields: Record<string, string>,
): Promise<string[]> {
  const members = names.map(member);
  const pipeline = ledger.redis.pipeline();
  for (const one of members) {
    pipeline
      .hset(key(ledger.tag, one), { [name]: one, ...fields })
      .zadd(index(ledger.tag, ledger.tenant), 0, one);
  }
  await pipeline.exec();
  return members;
}

interface Run {
  readonly next: readonly string[];
  readonly records: Map<string, string>[];
}

function recordsIn(reply: readonly string[]): Map<string, string>[] {
  const records: Map<string, string>[] = [];
  for (let at = 0; at < reply.length;) {
    const end = at + 1 + Number(reply[at]);
    records.push(new Map(fieldsOf(reply.slice(at + 1, end))));
    at = end;
  }
  return records;
}

/** A budget is one text. */
const budgetsIn = (reply: readonly string[]): Map<string, string>[] =>
  reply.map((text) => new Map(fieldsOf(text.split('\u001f'))));

async function run(ledger: LedgerClient, script: List, after: readonly string[], limit = 100): Promise<Run> {
  const [, tenant = '', member = '', ...records] = await ledger.scripts.run(
    script,
    [tenantIndexKey(ledger.tag)],
    [ledger.tenant, after[0] ?? '', after[1] ?? '', limit],
  );
  return {
    next: [tenant, member],
    records: script === 'list_budgets' ? budgetsIn(records) : recordsIn(records),
  };
}

async function all(ledger: LedgerClient, script: List, limit = 100): Promise<Run[]> {
  const runs = [await run(ledger, script, [], limit)];
  for (let last = runs[0] as Run; last.next[0] !== ''; runs.push(last)) {
    last = await run(ledger, script, last.next, limit);
  }
  return runs;
}

const namesOf = (runs: readonly Run[], { shown: [name] }: Listed): (string | undefined)[] =>
  runs.flatMap(({ records }) => records.map((record) => record.get(name)));
const NAMES = Array.from({ length: 12 }, (_, index) => `n${String(index).padStart(2, '0')}`);

describe.each(LISTS)('$script', (listed) => {
  test('leaves out free texts, long or short, and does not read long ones', async () => {
    const ledger = await newLedger();
    const long = Object.fromEntries(listed.texts.map((name) => [name, MEGABYTE]));
    const members = await furnish(ledger, listed, NAMES.slice(0, 3), { status: 'ACTIVE', ...long });
    await ledger.redis.hset(
      listed.key(ledger.tag, members[0] as string),
      Object.fromEntries(listed.texts.map((name) => [name, 'short'])),
    );
    let runs: Run[] = [];
    const commands = await commandsOf(ledger.redis, ledger.tag, async () => {
      runs = await all(ledger, listed.script);
    });
    expect(namesOf(runs, listed)).toEqual(members);
    for (const record of runs[0]?.records ?? []) {
      expect(record.get('status')).toBe('ACTIVE');
      expect([...record.keys()].filter((name) => listed.texts.includes(name))).toEqual([]);
    }
    const whole = commands.filter(([name]) => name === 'HGETALL').map(([, key]) => key);
    // Of a budget, only certain fields are read.
    expect(whole).toEqual(
      listed.script === 'list_budgets' ? [] : [listed.key(ledger.tag, members[0] as string)],
    );
    const ofBudgets = commands.filter(([, key]) => key?.includes('b:TOKENS:'));
    expect(ofBudgets.map(([name]) => name)).toEqual(
      listed.script === 'list_budgets' ? members.map(() => 'HMGET') : [],
    );
  });

  test('ends a run after 256 KiB and continues after the record that ended it', async () => {
    const ledger = await newLedger();
    const members = await furnish(ledger, listed, NAMES, { [listed.shown[1]]: 'x'.repeat(100_000) });
    const runs = await all(ledger, listed.script);
    expect(runs.map(({ records }) => records.length)).toEqual([3, 3, 3, 3, 0]);
    expect(namesOf(runs, listed)).toEqual(members);
  });

  test('reads no more records than requested', async () => {
    const ledger = await newLedger();
    const members = await furnish(ledger, listed, NAMES, {});
    const runs = await all(ledger, listed.script, 5);
    expect(runs.map(({ records }) => records.length)).toEqual([5, 5, 2]);
    expect(namesOf(runs, listed)).toEqual(members);
  });
});

describe('list_budgets_by_scope', () => {
  const [listed] = LISTS as [Listed];
  const read = async (
    ledger: LedgerClient,
    direction: string,
    after: string,
    limit: number,
  ): Promise<Run['records'] & { readonly next: string }> => {
    const [, next = '', ...records] = await ledger.scripts.run(
      'list_budgets_by_scope',
      [budgetIndexKey(ledger.tag, ledger.tenant)],
      [direction, after, limit],
    );
    return Object.assign(budgetsIn(records), { next });
  };
  const namesIn = (records: Run['records']): (string | undefined)[] =>
    records.map((record) => record.get('ledger_id'));

  test('reads the index in both directions from any text, and no more records than requested', async () => {
    const ledger = await newLedger();
    const members = await furnish(ledger, listed, NAMES, {});
    let pages: Run['records'][] = [];
    const commands = await commandsOf(ledger.redis, ledger.tag, async () => {
      pages = [
        await read(ledger, 'asc', '', 3),
        await read(ledger, 'asc', 'tenant:t!app:n02 U', 3),
        await read(ledger, 'desc', '', 3),
        await read(ledger, 'desc', 'tenant:t!app:n01!', 3),
      ];
    });
    expect(pages.map(namesIn)).toEqual([
      members.slice(0, 3),
      members.slice(3, 6),
      members.slice(-3).reverse(),
      members.slice(0, 2).reverse(),
    ]);
    expect(commands.filter(([name]) => name === 'HMGET')).toHaveLength(11);
  });

  test('says where the next run starts, after 256 KiB at the latest', async () => {
    const ledger = await newLedger();
    const members = await furnish(ledger, listed, NAMES, {
      [listed.shown[1]]: 'x'.repeat(100_000),
      metadata: MEGABYTE,
    });
    const first = await read(ledger, 'desc', '', 100);
    expect([first.length, first.next]).toEqual([3, members[9]]);
    const second = await read(ledger, 'asc', members[9] as string, 100);
    expect([namesIn(second), second.next]).toEqual([members.slice(10), '']);
  });
});

describe('the free texts of the rows that are shown', () => {
  const kinds: [Kind, Listed][] = [
    ['api_key', LISTS[1] as Listed],
    ['policy', LISTS[2] as Listed],
    ['webhook', LISTS[3] as Listed],
  ];
  const read = async (
    ledger: LedgerClient,
    kind: Kind | 'tenant',
    ids: readonly string[],
  ): Promise<Map<string, string>[]> =>
    recordsIn(await ledger.scripts.run('read_texts', [tenantIndexKey(ledger.tag)], [kind, ...ids]));

  test.each(kinds)(
    'of each %s come in the order of the ids, none for a missing record',
    async (kind, listed) => {
      const ledger = await newLedger();
      const [one, two] = (await furnish(ledger, listed, ['one', 'two'], { status: 'ACTIVE' })) as [
        string,
        string,
      ];
      const [text] = listed.texts as [string];
      await ledger.redis.hset(listed.key(ledger.tag, two), text, 'of two', 'hd', 'sealed');
      expect(
        (await read(ledger, kind, [one, 'gone', two])).map((record) => Object.fromEntries(record)),
      ).toEqual([{}, {}, { [text]: 'of two' }]);
    },
  );

  test('are returned for as many records as fit into 256 KiB, for at least one', async () => {
    const ledger = await newLedger();
    const [, listed] = kinds[0] as [Kind, Listed];
    const ids = await furnish(ledger, listed, NAMES, { description: 'x'.repeat(100_000) });
    await ledger.redis.hset(listed.key(ledger.tag, ids[3] as string), 'metadata', MEGABYTE);
    expect(await read(ledger, 'api_key', ids)).toHaveLength(3);
    expect(await read(ledger, 'api_key', ids.slice(3))).toHaveLength(1);
    expect(await read(ledger, 'api_key', ids.slice(10))).toHaveLength(2);
  });
});
