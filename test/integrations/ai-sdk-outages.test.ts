import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { generateText } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { type BudgetError, type BudgetOptions, withBudget } from '../../integrations/ai-sdk/src/index.js';
import {
  budgetOptions,
  figures,
  HELLO,
  INPUT,
  OUTPUT,
  refusalOf,
  states,
  Wire,
} from '../support/ai-sdk-calls.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type Json, type TestTenant } from '../support/holdfast.js';
import { earlyInMinute } from '../support/server-time.js';
import { startStore, type Store } from '../support/store.js';
import { StoredHolds } from '../support/stored-holds.js';

let store: Store;
let holdfast: Holdfast;
let stored: StoredHolds;
let tenant: TestTenant;
let problems: BudgetError[];

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
beforeEach(async () => {
  tenant = await holdfast.fundedTenant();
  problems = [];
});

/** Nothing listens there. */
const away = (): Promise<never> =>
  Promise.reject(Object.assign(new TypeError('fetch failed'), { code: 'ECONNREFUSED' }));
/** The connection broke, so that nobody knows what arrived. */
const lost = (): Promise<never> => Promise.reject(new TypeError('fetch failed'));
const onProblem = (problem: BudgetError): void => void problems.push(problem);
const budgeted = (model: MockLanguageModelV4, wire: Wire, more: Partial<BudgetOptions> = {}) =>
  withBudget(model, budgetOptions(holdfast, tenant, wire, { onProblem, ...more }));

/** Answers only the first attempt of a kind of request otherwise. */
function once(kind: string, instead: (send: () => Promise<Response>) => Promise<Response>): Wire {
  let isDone = false;
  return new Wire((what, send) => {
    if (what !== kind || isDone) {
      return send();
    }
    isDone = true;
    return instead(send);
  });
}

describe('while Holdfast is away', () => {
  test('no call is made, and the error may be retried', async () => {
    const inner = new MockLanguageModelV4({ doGenerate: HELLO });
    const model = budgeted(inner, new Wire(away));
    expect(await refusalOf(generateText({ model, prompt: 'Hi', maxRetries: 0 }))).toMatchObject({
      reason: 'unavailable',
      statusCode: 503,
      isRetryable: true,
    });
    expect(inner.doGenerateCalls).toEqual([]);
  });

  test('calls are made, reported and charged once Holdfast is back, if that was chosen', async () => {
    const wire = once('reserve', away);
    const model = budgeted(new MockLanguageModelV4({ doGenerate: HELLO }), wire, {
      whenUnavailable: 'allow',
    });
    expect((await generateText({ model, prompt: 'Hi' })).text).toBe('hello');
    expect(problems).toMatchObject([{ reason: 'unavailable', code: 'UNAVAILABLE' }]);
    expect(await wire.answered(1)).toEqual(['events']);
    expect(await figures(holdfast, tenant)).toBe('870 0 130');
  });

  test('an error of its store is the same, and says when to come back', async () => {
    const body = { error: 'INTERNAL_ERROR', message: 'Redis is away' };
    const answer = Response.json(body, { status: 503, headers: { 'retry-after': '2' } });
    const wire = once('reserve', () => Promise.resolve(answer));
    const model = budgeted(new MockLanguageModelV4(), wire);
    expect(await refusalOf(generateText({ model, prompt: 'Hi', maxRetries: 0 }))).toMatchObject({
      reason: 'unavailable',
      retryAfterMs: 2000,
      responseHeaders: { 'retry-after-ms': '2000' },
    });
    // It may have happened nevertheless.
    expect(await wire.answered(3)).toEqual(['reserve', 'reserve', 'release']);
    expect(await states(holdfast, tenant)).toEqual(['RELEASED']);
  });

  test('a reserve whose answer is lost is released', async () => {
    const wire = once('reserve', async (send) => {
      await send();
      return lost();
    });
    const model = budgeted(new MockLanguageModelV4(), wire);
    await refusalOf(generateText({ model, prompt: 'Hi', maxRetries: 0 }));
    expect(await states(holdfast, tenant)).toEqual(['RELEASED']);
    expect(await figures(holdfast, tenant)).toBe('1000 0 0');
    expect(await wire.answered(2)).toEqual(['reserve', 'release']);
  });

  test('a call that was made returns, and is charged once Holdfast is back', async () => {
    const wire = once('commit', lost);
    const model = budgeted(new MockLanguageModelV4({ doGenerate: HELLO }), wire);
    expect((await generateText({ model, prompt: 'Hi' })).text).toBe('hello');
    expect(await states(holdfast, tenant)).toEqual(['COMMITTED']);
    expect(await figures(holdfast, tenant)).toBe('870 0 130');
    expect(problems).toEqual([]);
  });
});

/** Keeps this process from doing anything else. */
function block(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

test('an answer does not wait for a charge that takes longer than a decision may', async () => {
  const wire = once('commit', () => new Promise(() => undefined));
  const { holdfast: connection, ...rest } = budgetOptions(holdfast, tenant, wire);
  const inner = new MockLanguageModelV4({ doGenerate: HELLO });
  const model = withBudget(inner, { ...rest, holdfast: { ...connection, timeoutMs: 3000 } });
  expect((await generateText({ model, prompt: 'Hi', maxRetries: 0 })).text).toBe('hello');
  expect(wire.sent).toEqual(['reserve']);
  expect(await wire.answered(2)).toEqual(['reserve', 'commit']);
  expect(await figures(holdfast, tenant)).toBe('870 0 130');
});

describe('the time limit of a decision', () => {
  test('counts no time in which the process could not listen: of a hundred calls at once, as many pass as fit', async () => {
    const limitMs = 5000;
    let decided = 0;
    let end = (): void => undefined;
    const ended = new Promise<void>((done) => (end = done));
    const wire = new Wire(async (what, send) => {
      const response = await send();
      if (what === 'reserve') {
        block((1.2 * limitMs) / 100);
        decided += 1;
        if (decided === 100) {
          end();
        }
      }
      return response;
    });
    tenant = await holdfast.fundedTenant(19 * (INPUT + OUTPUT));
    const inner = new MockLanguageModelV4({ doGenerate: () => ended.then(() => HELLO) });
    const { holdfast: connection, ...rest } = budgetOptions(holdfast, tenant, wire);
    const model = withBudget(inner, { ...rest, holdfast: { ...connection, timeoutMs: limitMs } });
    const calls = Array.from({ length: 100 }, () => generateText({ model, prompt: 'Hi', maxRetries: 0 }));
    const outcomes = await Promise.allSettled(calls);
    expect(inner.doGenerateCalls).toHaveLength(19);
    const refusals = outcomes.flatMap((one) =>
      one.status === 'rejected' ? [one.reason as BudgetError] : [],
    );
    expect(refusals.map(({ reason }) => reason)).toEqual(Array<string>(81).fill('denied'));
    expect(await figures(holdfast, tenant)).toBe(`${19 * 170} 0 ${19 * 130}`);
  });

  test('ends a wait for nothing', async () => {
    const silent = once('reserve', () => new Promise(() => undefined));
    const { holdfast: connection, ...rest } = budgetOptions(holdfast, tenant, silent);
    const model = withBudget(new MockLanguageModelV4(), {
      ...rest,
      holdfast: { ...connection, timeoutMs: 100 },
    });
    const refusal = await refusalOf(generateText({ model, prompt: 'Hi', maxRetries: 0 }));
    expect(refusal).toMatchObject({ reason: 'unavailable', message: expect.stringContaining('100 ms') });
    expect(await silent.answered(2)).toEqual(['reserve', 'release']);
  });
});

describe('a key that is revoked while a call runs', () => {
  test('makes its charge wait for the next one', async () => {
    const keys = ['revoked', tenant.key];
    const wire = new Wire();
    const { holdfast: connection, ...rest } = budgetOptions(holdfast, tenant, wire);
    let isRunning = false;
    const apiKey = (): string => (isRunning && keys.length > 1 ? (keys.shift() as string) : tenant.key);
    const inner = new MockLanguageModelV4({
      doGenerate: () => {
        isRunning = true;
        return Promise.resolve(HELLO);
      },
    });
    const model = withBudget(inner, { ...rest, holdfast: { ...connection, apiKey } });
    expect((await generateText({ model, prompt: 'Hi' })).text).toBe('hello');
    expect(await wire.answered(3)).toEqual(['reserve', 'commit', 'commit']);
    expect(await figures(holdfast, tenant)).toBe('870 0 130');
    expect(wire.problems).toEqual([]);
  });
});

describe('a refusal of another kind', () => {
  test('is a mistake of the set-up, which nobody retries', async () => {
    const { holdfast: connection, ...rest } = budgetOptions(holdfast, tenant, new Wire());
    const model = withBudget(new MockLanguageModelV4(), {
      ...rest,
      holdfast: { ...connection, apiKey: 'wrong' },
    });
    expect(await refusalOf(generateText({ model, prompt: 'Hi' }))).toMatchObject({
      reason: 'misconfigured',
      code: 'UNAUTHORIZED',
      statusCode: 401,
      isRetryable: false,
    });
  });

  test('by a rate tells the SDK when to retry', async () => {
    const scope_pattern = `tenant:${tenant.id}`;
    const rate_limits = { max_reservations_per_minute: 1 };
    const policy = { tenant_id: tenant.id, name: 'slow', scope_pattern, rate_limits };
    expectStatus(await holdfast.admin('POST', '/v1/admin/policies', policy), 201);
    const model = budgeted(new MockLanguageModelV4({ doGenerate: HELLO }), new Wire());
    await earlyInMinute(stored.redis);
    await generateText({ model, prompt: 'Hi' });
    const refusal = await refusalOf(generateText({ model, prompt: 'Hi', maxRetries: 0 }));
    expect(refusal).toMatchObject({ reason: 'denied', statusCode: 429, isRetryable: true });
    expect(refusal.retryAfterMs).toBeGreaterThan(0);
  });
});

describe('a call that takes longer than its reservation', () => {
  async function reservationId(): Promise<string> {
    const answer = await holdfast.call('GET', `/v1/reservations?tenant=${tenant.id}`, { key: tenant.key });
    return (expectStatus(answer, 200).reservations as Json[])[0].reservation_id as string;
  }

  test('extends it while it runs, each time by as long as it has run', async () => {
    let extended = 0;
    let enough = (): void => undefined;
    const running = new Promise<void>((done) => (enough = done));
    const wire = new Wire(async (what, send) => {
      const response = await send();
      extended += what === 'extend' ? 1 : 0;
      if (extended === 3) {
        enough();
      }
      return response;
    });
    const inner = new MockLanguageModelV4({ doGenerate: () => running.then(() => HELLO) });
    await generateText({ model: budgeted(inner, wire, { ttlMs: 1000 }), prompt: 'Hi' });
    expect(await figures(holdfast, tenant)).toBe('870 0 130');
    expect(wire.sent.slice(0, 4)).toEqual(['reserve', 'extend', 'extend', 'extend']);
    const [first, , third] = wire.bodies.flatMap(({ extend_by_ms }) => (extend_by_ms as number) ?? []);
    expect(first).toBeGreaterThanOrEqual(1000);
    // The second adds 1.5 s or more, so the third is due when the call has run for more than two seconds.
    expect(third).toBeGreaterThan(2000);
    expect(problems).toEqual([]);
  });

  test.each([
    ['release', '870 0 130', ['reserve', 'commit', 'events']],
    ['input', '870 0 130', ['reserve', 'commit', 'events']],
    ['estimate', '700 0 300', ['reserve', 'commit', 'refunds']],
  ] as const)('is charged for what its expiry did not charge (%s)', async (unknownEnd, left, sent) => {
    const wire = new Wire();
    const inner = new MockLanguageModelV4({
      doGenerate: async () => {
        await stored.expireIn(await reservationId(), -60_000);
        return HELLO;
      },
    });
    await generateText({ model: budgeted(inner, wire, { unknownEnd }), prompt: 'Hi' });
    expect(await figures(holdfast, tenant)).toBe(left);
    expect(await wire.answered(sent.length)).toEqual(sent);
    // By default, no key may take back what the expiry charged too much.
    const told = unknownEnd === 'estimate' ? ['RESERVATION_EXPIRED'] : [];
    await eventually('it is told', () => problems.length >= told.length);
    expect(problems.map(({ code }) => code)).toEqual(told);
  });
});
