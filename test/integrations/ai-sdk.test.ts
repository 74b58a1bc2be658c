import { APICallError } from '@ai-sdk/provider';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { generateText, isStepCount, jsonSchema, streamText, tool } from 'ai';
import { MockLanguageModelV3, MockLanguageModelV4 } from 'ai/test';
import { type BudgetOptions, withBudget } from '../../integrations/ai-sdk/src/index.js';
import {
  answerOf,
  BEGIN,
  budgetOptions,
  figures,
  FINISH,
  HELLO,
  INPUT,
  OUTPUT,
  refusalOf,
  states,
  streamOf,
  usageOf,
  Wire,
} from '../support/ai-sdk-calls.js';
import { expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';

let holdfast: Holdfast;
beforeAll(async () => {
  holdfast = await Holdfast.start();
});
afterAll(() => holdfast.stop());
afterEach(() => expect(wire.problems).toEqual([]));

let wire: Wire;
let tenant: TestTenant;
/** A model whose calls a new tenant with a budget of so many tokens pays. */
async function budgeted<Model extends Parameters<typeof withBudget>[0]>(
  model: Model,
  more: Partial<BudgetOptions> = {},
  allocated = 1000,
) {
  wire = new Wire();
  tenant = await holdfast.fundedTenant(allocated);
  return withBudget(model, budgetOptions(holdfast, tenant, wire, more));
}

const unavailable = (statusCode: number): APICallError =>
  new APICallError({ message: 'overloaded', url: 'http://model', requestBodyValues: {}, statusCode });
const textOf = async (parts: AsyncIterable<string>): Promise<string> => {
  let text = '';
  for await (const part of parts) {
    text += part;
  }
  return text;
};

describe.each([
  [
    'v4' as const,
    () => new MockLanguageModelV4({ doGenerate: HELLO, doStream: streamOf([...BEGIN, ...FINISH]) }),
  ],
  [
    'v3' as const,
    // The older parts and answers are a subset of the newer.
    () =>
      new MockLanguageModelV3({
        doGenerate: HELLO as never,
        doStream: streamOf([...BEGIN, ...FINISH]) as never,
      }),
  ],
])('a model of specification %s', (version, modelOf) => {
  test('costs what its provider counts, generated and streamed', async () => {
    const model = await budgeted(modelOf());
    expect(model.specificationVersion).toBe(version);
    expect((await generateText({ model, prompt: 'Hi' })).text).toBe('hello');
    expect(await figures(holdfast, tenant)).toBe('870 0 130');
    expect(await textOf(streamText({ model, prompt: 'Hi' }).textStream)).toBe('hello ');
    expect(await figures(holdfast, tenant)).toBe('740 0 260');
    expect(await wire.answered(4)).toEqual(['reserve', 'commit', 'reserve', 'commit']);
    expect(wire.bodies[0]).toMatchObject({
      action: { kind: 'llm.completion', name: 'mock-model-id' },
      estimate: { unit: 'TOKENS', amount: INPUT + OUTPUT },
    });
    expect(wire.bodies[1]).toMatchObject({ metrics: { tokens_input: 90, tokens_output: 40 } });
  });

  test('is not called when the budget denies', async () => {
    const inner = modelOf();
    const model = await budgeted(inner, {}, INPUT + OUTPUT - 1);
    const refusal = await refusalOf(generateText({ model, prompt: 'Hi' }));
    expect(refusal).toMatchObject({
      reason: 'denied',
      code: 'BUDGET_EXCEEDED',
      scope: `tenant:${tenant.id}`,
      statusCode: 402,
      isRetryable: false,
    });
    expect(APICallError.isInstance(refusal)).toBe(true);
    // Asked once.
    expect(await wire.answered(1)).toEqual(['reserve']);
    const errors: unknown[] = [];
    const { textStream } = streamText({
      model,
      prompt: 'Hi',
      onError: ({ error }) => void errors.push(error),
    });
    expect(await textOf(textStream)).toBe('');
    expect(errors).toEqual([expect.objectContaining({ reason: 'denied', statusCode: 402 })]);
    expect([inner.doGenerateCalls, inner.doStreamCalls]).toEqual([[], []]);
  });
});

describe('a call', () => {
  test('in dollars costs its tokens at their prices, rounded up', async () => {
    const usage = {
      inputTokens: { total: 1000, noCache: 300, cacheRead: 600, cacheWrite: 100 },
      outputTokens: { total: 7, text: 7, reasoning: undefined },
    };
    const model = await budgeted(new MockLanguageModelV4({ doGenerate: { ...HELLO, usage } }), {
      price: (id) =>
        id === 'mock-model-id'
          ? { input: 0.15, output: 0.6, cachedInput: 0.075, cacheWrite: 0.1875 }
          : undefined,
    });
    await holdfast.createBudget(tenant, '', 100_000, { unit: 'USD_MICROCENTS' });
    await generateText({ model, prompt: 'Hi' });
    await wire.answered(2);
    // All of the input may be written to the cache.
    expect(wire.bodies[0]).toMatchObject({ estimate: { unit: 'USD_MICROCENTS', amount: 1875 + 12_000 } });
    expect(wire.bodies[1]).toMatchObject({
      actual: { unit: 'USD_MICROCENTS', amount: 4500 + 4500 + 1875 + 420 },
    });
  });

  test('of a model without a price is refused before Holdfast is asked', async () => {
    const model = await budgeted(new MockLanguageModelV4(), { price: () => undefined });
    expect(await refusalOf(generateText({ model, prompt: 'Hi' }))).toMatchObject({
      reason: 'misconfigured',
      code: 'UNPRICED_MODEL',
      isRetryable: false,
    });
    expect(wire.sent).toEqual([]);
  });

  test('gets a bound for its output, which a policy may lower', async () => {
    const inner = new MockLanguageModelV4({ doGenerate: HELLO });
    const model = await budgeted(inner);
    await generateText({ model, prompt: 'Hi' });
    await generateText({ model, prompt: 'Hi', maxOutputTokens: 50 });
    const policy = { tenant_id: tenant.id, name: 'short', scope_pattern: `tenant:${tenant.id}` };
    expectStatus(
      await holdfast.admin('POST', '/v1/admin/policies', { ...policy, caps: { max_tokens: 20 } }),
      201,
    );
    await generateText({ model, prompt: 'Hi' });
    expect(inner.doGenerateCalls.map(({ maxOutputTokens }) => maxOutputTokens)).toEqual([OUTPUT, 50, 20]);
    expect(wire.bodies.filter(({ estimate }) => estimate).map(({ estimate }) => estimate.amount)).toEqual([
      INPUT + OUTPUT,
      INPUT + 50,
      INPUT + OUTPUT,
    ]);
  });

  test('is charged to a subject that the application names with it', async () => {
    const model = await budgeted(new MockLanguageModelV4({ doGenerate: HELLO }), {
      subject: ({ providerOptions }) => ({
        tenant: tenant.id,
        agent: providerOptions?.['holdfast']?.['user'] as string,
      }),
    });
    await holdfast.createBudget(tenant, '/agent:ada', 500);
    await generateText({ model, prompt: 'Hi', providerOptions: { holdfast: { user: 'ada' } } });
    await figures(holdfast, tenant);
    expect((await holdfast.balances(tenant))[`tenant:${tenant.id}/agent:ada`]).toBe('370 0 130 0');
  });

  test('estimates its input from messages and tools, and not from the bytes of files', async () => {
    const model = await budgeted(
      new MockLanguageModelV4({ doGenerate: HELLO }),
      { inputTokens: undefined },
      1e6,
    );
    await generateText({ model, prompt: 'x'.repeat(3000) });
    const content = [{ type: 'file' as const, data: new Uint8Array(300_000), mediaType: 'application/pdf' }];
    await generateText({ model, messages: [{ role: 'user', content }] });
    const plain = content.map((part) => ({ ...part, mediaType: 'text/plain' }));
    await generateText({ model, messages: [{ role: 'user', content: plain }] });
    const [text, file, textFile] = wire.bodies
      .filter(({ estimate }) => estimate)
      .map(({ estimate }) => estimate.amount);
    expect(text - OUTPUT).toBeGreaterThan(1000);
    expect(text - OUTPUT).toBeLessThan(1100);
    expect(file - OUTPUT).toBeGreaterThan(2000);
    expect(file - OUTPUT).toBeLessThan(2100);
    // Of a text, the bytes are what it costs.
    expect(textFile - OUTPUT).toBeGreaterThan(100_000);
    expect(textFile - OUTPUT).toBeLessThan(100_100);
  });

  test('that is retried reserves for each attempt, and the refused one costs nothing', async () => {
    // A server that says when to come back spares the test the SDK's two seconds.
    const busy = Object.assign(unavailable(503), { responseHeaders: { 'retry-after-ms': '1' } });
    const answers = [Promise.reject(busy), Promise.reject(busy), Promise.resolve(HELLO)];
    answers.forEach((answer) => void answer.catch(() => undefined));
    const inner = new MockLanguageModelV4({ doGenerate: () => answers.shift() as Promise<typeof HELLO> });
    const model = await budgeted(inner);
    await generateText({ model, prompt: 'Hi' });
    expect(await states(holdfast, tenant)).toEqual(['COMMITTED', 'RELEASED', 'RELEASED']);
    expect(await figures(holdfast, tenant)).toBe('870 0 130');
  });

  test('with tools is charged for each step, and refused at the step that the budget does not cover', async () => {
    const ask = answerOf({ type: 'tool-call', toolCallId: 'c', toolName: 'clock', input: '{}' });
    const steps = { ...ask, finishReason: { unified: 'tool-calls' as const, raw: undefined } };
    const inner = new MockLanguageModelV4({ doGenerate: () => Promise.resolve(steps) });
    const model = await budgeted(inner, {}, 550);
    const clock = tool({
      inputSchema: jsonSchema<Record<string, never>>({ type: 'object', properties: {} }),
      execute: () => 'noon',
    });
    const refusal = await refusalOf(
      generateText({ model, prompt: 'When?', tools: { clock }, stopWhen: isStepCount(5) }),
    );
    expect(refusal.reason).toBe('denied');
    // 550, 420 and 290 remained, and the third step needs 300.
    expect(inner.doGenerateCalls).toHaveLength(2);
    expect(await figures(holdfast, tenant)).toBe('290 0 260');
  });
});

describe('a call whose end nobody knows', () => {
  const lost = (): Promise<never> => Promise.reject(new Error('socket hang up'));

  test.each([
    ['estimate', '700 0 300', 'COMMITTED'],
    ['input', '900 0 100', 'COMMITTED'],
    ['release', '1000 0 0', 'RELEASED'],
  ] as const)('costs the %s, if that was chosen', async (unknownEnd, left, state) => {
    const model = await budgeted(new MockLanguageModelV4({ doGenerate: lost }), { unknownEnd });
    await expect(generateText({ model, prompt: 'Hi' })).rejects.toThrow('socket hang up');
    expect([await figures(holdfast, tenant), await states(holdfast, tenant)]).toEqual([left, [state]]);
  });

  test('costs nothing if it never reached the provider', async () => {
    const cause = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
    const error = new Error('fetch failed', { cause });
    const model = await budgeted(new MockLanguageModelV4({ doGenerate: () => Promise.reject(error) }));
    await expect(generateText({ model, prompt: 'Hi' })).rejects.toThrow('fetch failed');
    expect(await states(holdfast, tenant)).toEqual(['RELEASED']);
  });

  test('costs the estimate if a gateway gave up on it', async () => {
    const model = await budgeted(
      new MockLanguageModelV4({ doGenerate: () => Promise.reject(unavailable(504)) }),
    );
    await expect(generateText({ model, prompt: 'Hi', maxRetries: 0 })).rejects.toThrow('overloaded');
    expect(await figures(holdfast, tenant)).toBe('700 0 300');
  });

  test('costs what was sent and seen if its provider counts nothing', async () => {
    const silent = { ...HELLO, usage: usageOf(undefined, undefined) };
    const model = await budgeted(new MockLanguageModelV4({ doGenerate: silent }));
    await generateText({ model, prompt: 'Hi' });
    const seen = 2;
    expect(await figures(holdfast, tenant)).toBe(`${900 - seen} 0 ${100 + seen}`);
  });
});

describe('a stream', () => {
  // A third of its six bytes.
  const SEEN = 2;

  test('that breaks costs what was sent and seen, and the application gets as much of it as without a budget', async () => {
    const model = await budgeted(new MockLanguageModelV4({ doStream: streamOf(BEGIN, new Error('cut')) }));
    let text = '';
    const read = async (): Promise<void> => {
      for await (const part of streamText({ model, prompt: 'Hi' }).textStream) {
        text += part;
      }
    };
    await expect(read()).rejects.toThrow('cut');
    expect(text).toBe('hello ');
    expect(await figures(holdfast, tenant)).toBe(`${900 - SEEN} 0 ${INPUT + SEEN}`);
  });

  test('that is aborted is cut at the provider, and costs what was sent and seen', async () => {
    const abort = new AbortController();
    const inner = new MockLanguageModelV4({
      doStream: ({ abortSignal }) =>
        Promise.resolve({
          stream: new ReadableStream({
            start(controller) {
              BEGIN.forEach((part) => controller.enqueue(part));
              abortSignal?.addEventListener('abort', () => controller.error(abortSignal.reason));
            },
          }),
        }),
    });
    const model = await budgeted(inner);
    const { textStream } = streamText({ model, prompt: 'Hi', abortSignal: abort.signal });
    for await (const _ of textStream) {
      abort.abort();
    }
    expect(await figures(holdfast, tenant)).toBe(`${900 - SEEN} 0 ${INPUT + SEEN}`);
  });

  test('that the application leaves goes on at the provider, and costs what that counts', async () => {
    const model = await budgeted(new MockLanguageModelV4({ doStream: streamOf([...BEGIN, ...FINISH]) }));
    for await (const _ of streamText({ model, prompt: 'Hi' }).textStream) {
      break;
    }
    expect(await figures(holdfast, tenant)).toBe('870 0 130');
  });

  test('that its reader cancels is cancelled at the provider', async () => {
    let reason: unknown;
    const stream = new ReadableStream({
      start: (controller) => BEGIN.forEach((part) => controller.enqueue(part)),
      cancel: (given) => void (reason = given),
    });
    const model = await budgeted(new MockLanguageModelV4({ doStream: { stream } }));
    const result = await model.doStream({ prompt: [] });
    const reader = result.stream.getReader();
    await reader.read();
    await reader.cancel('enough');
    expect(reason).toBe('enough');
    expect(await states(holdfast, tenant)).toEqual(['COMMITTED']);
  });

  test('that the provider refuses to begin costs nothing', async () => {
    const model = await budgeted(
      new MockLanguageModelV4({ doStream: () => Promise.reject(unavailable(400)) }),
    );
    const errors: unknown[] = [];
    await textOf(
      streamText({ model, prompt: 'Hi', onError: ({ error }) => void errors.push(error) }).textStream,
    );
    expect(errors).toHaveLength(1);
    expect(await states(holdfast, tenant)).toEqual(['RELEASED']);
  });
});

test('an abort while Holdfast is asked releases the reservation, and the model is not called', async () => {
  const abort = new AbortController();
  const inner = new MockLanguageModelV4({ doGenerate: HELLO });
  tenant = await holdfast.fundedTenant();
  wire = new Wire(async (what, send) => {
    const response = await send();
    if (what === 'reserve') {
      abort.abort();
    }
    return response;
  });
  const model = withBudget(inner, budgetOptions(holdfast, tenant, wire));
  await expect(model.doGenerate({ prompt: [], abortSignal: abort.signal })).rejects.toThrow('aborted');
  expect(inner.doGenerateCalls).toEqual([]);
  expect(await states(holdfast, tenant)).toEqual(['RELEASED']);
  await expect(model.doGenerate({ prompt: [], abortSignal: abort.signal })).rejects.toThrow('aborted');
  expect(await wire.answered(2)).toEqual(['reserve', 'release']);
});
