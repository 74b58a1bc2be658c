import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { APICallError, type LanguageModelV4GenerateResult } from '@ai-sdk/provider';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { MockLanguageModelV4 } from 'ai/test';
import {
  type BudgetError,
  type BudgetOptions,
  segment,
  type Subject,
  withBudget,
} from '../../integrations/ai-sdk/src/index.js';
import { budgetOptions, HELLO, states, usageOf, Wire } from '../support/ai-sdk-calls.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type Json, type TestTenant } from '../support/holdfast.js';
import { startStore, type Store } from '../support/store.js';
import { StoredHolds } from '../support/stored-holds.js';

interface Cases {
  readonly segments: readonly { value: string; segment: string }[];
  readonly subjects: readonly { given: Subject; subject: Subject }[];
  readonly prices: readonly {
    name: string;
    dollars_per_million: { input: number; output: number; cache_write?: number };
    tokens: { input: number; output: number };
    held: number;
    held_for_input: number;
  }[];
  readonly failures: readonly { how: string; status?: number; costs_nothing: boolean }[];
  readonly orphans: Readonly<Record<'held' | 'held_for_input' | 'estimate' | 'input' | 'release', number>>;
  readonly ends: readonly {
    name: string;
    policy: 'estimate' | 'input' | 'release';
    has_expired?: boolean;
    may_refund?: boolean;
    is_unreserved?: boolean;
    allocated: number;
    overage: string;
    cost: number;
    spent: number;
    requests: readonly string[];
    told: readonly string[];
  }[];
  readonly settlements: readonly { status: number; is_repeated: boolean }[];
}

/** What both integrations do alike; integrations/litellm/tests/test_cases.py reads it, too. */
const CASES = JSON.parse(
  readFileSync(join(import.meta.dirname, '../../integrations/cases.json'), 'utf8'),
) as Cases;

let store: Store;
let holdfast: Holdfast;
let stored: StoredHolds;
let tenant: TestTenant;

beforeAll(async () => {
  // A store of its own: requests of another file could expire the holds that this file makes overdue.
  store = await startStore();
  holdfast = await Holdfast.start({ REDIS_URL: store.url });
  stored = new StoredHolds(store.url);
});
afterAll(async () => {
  stored.close();
  await holdfast.stop();
  await store.stop();
});

const USD = { unit: 'USD_MICROCENTS' };
/** A microcent for each token. */
const PRICE = { input: 0.01, output: 0.01 };
const { held: HELD, held_for_input: HELD_FOR_INPUT } = CASES.orphans;

/** A model whose calls hold HELD of a budget in microcents, in a tenant of its own. */
async function budgeted(
  doGenerate: () => Promise<LanguageModelV4GenerateResult>,
  wire: Wire,
  {
    allocated = 2000,
    overage = 'REJECT',
    mayRefund = false,
    ...more
  }: Partial<BudgetOptions> & Record<string, unknown> = {},
): Promise<MockLanguageModelV4> {
  tenant = await holdfast.fundedTenant();
  await holdfast.createBudget(tenant, '', allocated as number, { ...USD, commit_overage_policy: overage });
  const permissions = ['reservations:create', 'reservations:commit', 'reservations:extend', 'refunds:create'];
  const payer = mayRefund ? { ...tenant, key: await holdfast.createKey(tenant.id, { permissions }) } : tenant;
  const options = budgetOptions(holdfast, payer, wire, {
    price: PRICE,
    inputTokens: () => HELD_FOR_INPUT,
    maxOutputTokens: HELD - HELD_FOR_INPUT,
    ...more,
  });
  return withBudget(new MockLanguageModelV4({ doGenerate }), options) as unknown as MockLanguageModelV4;
}

async function spent(): Promise<number> {
  await states(holdfast, tenant);
  const answer = await holdfast.call('GET', `/v1/balances?tenant=${tenant.id}`, { key: tenant.key });
  const found = (expectStatus(answer, 200).balances as Json[]).find(
    ({ spent: sum }) => sum.unit === USD.unit,
  );
  return found?.spent.amount as number;
}

/** What could not be charged as it should, as soon as so much is told. */
const problemsOf = (wire: Wire, count: number): Promise<BudgetError[]> =>
  eventually(`${count} problems are told`, () => {
    const told = wire.problems.filter(({ reason }) => reason !== 'unavailable');
    return told.length >= count && told;
  });

test.each(CASES.segments)('$value is the segment $segment', async (one) => {
  expect(await segment(one.value)).toBe(one.segment);
});

test.each(CASES.subjects)('the subject of $given is $subject', async ({ given, subject }) => {
  const wire = new Wire();
  const model = await budgeted(() => Promise.resolve(HELLO), wire, {
    subject: () => ({ ...given, dimensions: { team: 'any thing' } }),
  });
  await model.doGenerate({ prompt: [] });
  expect(wire.bodies[0]).toMatchObject({ subject: { ...subject, dimensions: { team: 'any thing' } } });
  expect(Object.keys(wire.bodies[0]?.subject as object)).toEqual([...Object.keys(subject), 'dimensions']);
});

test.each(CASES.prices)('a price of $name', async ({ dollars_per_million: price, tokens, ...held }) => {
  const wire = new Wire();
  const model = await budgeted(() => Promise.resolve(HELLO), wire, {
    allocated: 10_000_000_000,
    price: {
      input: price.input,
      output: price.output,
      ...(price.cache_write === undefined ? {} : { cacheWrite: price.cache_write }),
    },
    inputTokens: () => tokens.input,
    unknownEnd: 'input',
  });
  await model.doGenerate({ prompt: [], maxOutputTokens: tokens.output });
  expect(wire.bodies[0]).toMatchObject({ estimate: { ...USD, amount: held.held } });
  expect(wire.headers[0]?.get('x-holdfast-charge-on-expiry')).toBe(String(held.held_for_input));
});

test.each(CASES.failures)(
  'a call that fails ($how $status) costs nothing: $costs_nothing',
  async (failure) => {
    const cause = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
    const { how, status: statusCode } = failure;
    const error =
      statusCode === undefined
        ? new Error(how, how === 'never connected' ? { cause } : {})
        : new APICallError({ message: how, url: 'http://model', requestBodyValues: {}, statusCode });
    const model = await budgeted(() => Promise.reject(error), new Wire());
    await expect(Promise.resolve(model.doGenerate({ prompt: [] }))).rejects.toThrow(how);
    expect(await spent()).toBe(failure.costs_nothing ? 0 : CASES.orphans.estimate);
  },
);

test.each(['estimate', 'input', 'release'] as const)('an unknown end costs the %s', async (unknownEnd) => {
  const model = await budgeted(() => Promise.reject(new Error('broke')), new Wire(), { unknownEnd });
  await expect(Promise.resolve(model.doGenerate({ prompt: [] }))).rejects.toThrow('broke');
  expect(await spent()).toBe(CASES.orphans[unknownEnd]);
});

describe('a call that costs', () => {
  const words: Record<string, string> = { CHARGE_CAPPED: 'capped', RESERVATION_EXPIRED: 'overcharged' };

  test.each(CASES.ends)('$name', async ({ policy, allocated, overage, cost, ...then }) => {
    const refused = (): Promise<never> =>
      Promise.reject(Object.assign(new TypeError('fetch failed'), { code: 'ECONNREFUSED' }));
    const wire = new Wire((what, send) =>
      what === 'reserve' && then.is_unreserved === true ? refused() : send(),
    );
    const model = await budgeted(
      async () => {
        if (then.has_expired === true) {
          const list = await holdfast.call('GET', `/v1/reservations?tenant=${tenant.id}`, {
            key: tenant.key,
          });
          const [hold] = expectStatus(list, 200).reservations as Json[];
          await stored.expireIn(hold?.reservation_id as string, -60_000);
        }
        return { ...HELLO, usage: usageOf(cost - 100, 100) };
      },
      wire,
      {
        allocated,
        overage,
        unknownEnd: policy,
        whenUnavailable: 'allow',
        mayRefund: then.may_refund === true,
      },
    );
    await model.doGenerate({ prompt: [] });
    const requests = await wire.answered(then.requests.length + (then.is_unreserved === true ? 0 : 1));
    expect(requests.filter((what) => what !== 'reserve')).toEqual(then.requests);
    expect(await spent()).toBe(then.spent);
    const told = await problemsOf(wire, then.told.length);
    expect(told.map(({ code }) => words[code] ?? 'uncharged')).toEqual(then.told);
  });
});

test.each(CASES.settlements)('a charge that gets $status is repeated: $is_repeated', async (settlement) => {
  const { status } = settlement;
  let commits = 0;
  const wire = new Wire((what, send) => {
    commits += what === 'commit' ? 1 : 0;
    const body = { error: 'OTHER', message: 'not now' };
    return what === 'commit' && commits === 1 ? Promise.resolve(Response.json(body, { status })) : send();
  });
  const model = await budgeted(() => Promise.resolve(HELLO), wire);
  await model.doGenerate({ prompt: [] });
  if (settlement.is_repeated) {
    expect(await wire.answered(3)).toEqual(['reserve', 'commit', 'commit']);
    expect(await spent()).toBe(130);
    expect(wire.problems).toEqual([]);
  } else {
    expect(await wire.answered(2)).toEqual(['reserve', 'commit']);
    expect(await problemsOf(wire, 1)).toMatchObject([
      { code: 'OTHER', message: expect.stringContaining('130') },
    ]);
  }
});
