import { LoadAPIKeyError } from '@ai-sdk/provider';
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { embed, embedMany, generateText, Output, streamText } from 'ai';
import {
  MockEmbeddingModelV3,
  MockEmbeddingModelV4,
  MockImageModelV4,
  MockLanguageModelV4,
  MockRerankingModelV4,
  MockSpeechModelV4,
  MockTranscriptionModelV4,
  MockVideoModelV4,
} from 'ai/test';
import { BudgetError, type BudgetOptions, withBudget } from '../../integrations/ai-sdk/src/index.js';
import {
  answerOf,
  BEGIN,
  budgetOptions,
  figures,
  INPUT,
  OUTPUT,
  refusalOf,
  states,
  streamOf,
  usageOf,
  Wire,
} from '../support/ai-sdk-calls.js';
import { Holdfast, type TestTenant } from '../support/holdfast.js';

let holdfast: Holdfast;
let wire: Wire;
let tenant: TestTenant;

beforeAll(async () => {
  holdfast = await Holdfast.start();
});
afterAll(() => holdfast.stop());
afterEach(() => expect(wire.problems).toEqual([]));

async function optionsOf(more: Partial<BudgetOptions> = {}): Promise<BudgetOptions> {
  wire = new Wire();
  tenant = await holdfast.fundedTenant();
  return budgetOptions(holdfast, tenant, wire, more);
}

/** 120 bytes, so about 40 tokens. */
const TEXT = 'word'.repeat(30);
const SEEN = 40;

describe('usage that cannot be true is unknown, and what was sent and seen is charged', () => {
  const { inputTokens, outputTokens } = usageOf(90, 50);
  const cached = (cacheRead: number | undefined, cacheWrite?: number) => ({
    inputTokens: { ...inputTokens, cacheRead, cacheWrite },
    outputTokens,
  });

  test.each([
    ['nothing of what came back', usageOf(0, 0), INPUT + SEEN],
    ['no output', usageOf(90, 0), 90 + SEEN],
    ['no input', usageOf(0, 50), INPUT + 50],
    ['not a number', usageOf(NaN, NaN), INPUT + SEEN],
    ['infinitely many', usageOf(Infinity, Infinity), INPUT + SEEN],
    ['fractions', usageOf(90.5, 50.25), INPUT + SEEN],
    ['negative numbers', usageOf(-1, -1), INPUT + SEEN],
    ['more than whole numbers can say', usageOf(2 ** 60, 2 ** 60), INPUT + SEEN],
    ['texts', usageOf('90' as never, '50' as never), INPUT + SEEN],
    ['null', usageOf(null as never, null as never), INPUT + SEEN],
    ['more from the cache than in all', cached(91), INPUT + 50],
    ['more into the cache than in all', cached(1, 90), INPUT + 50],
    ['a negative number from the cache', cached(-1), INPUT + 50],
    ['no number from the cache', cached(NaN), INPUT + 50],
    ['all that can be true', cached(50, 40), 90 + 50],
    ['no usage at all', undefined as never, INPUT + SEEN],
    ['an empty usage', {} as never, INPUT + SEEN],
  ])('%s', async (_, usage, charged) => {
    const answer = { ...answerOf({ type: 'text', text: TEXT }), usage };
    const finish = { type: 'finish' as const, usage, finishReason: answer.finishReason };
    const parts = [...BEGIN.slice(0, 2), { type: 'text-delta' as const, id: '1', delta: TEXT }, finish];
    const inner = new MockLanguageModelV4({ doGenerate: answer, doStream: streamOf(parts) });
    const model = withBudget(inner, await optionsOf());
    // Without the SDK, which reads the usage, too.
    await model.doGenerate({ prompt: [] });
    expect(await figures(holdfast, tenant)).toBe(`${1000 - charged} 0 ${charged}`);
    const { stream } = await model.doStream({ prompt: [] });
    for await (const _part of stream);
    expect(await figures(holdfast, tenant)).toBe(`${1000 - 2 * charged} 0 ${2 * charged}`);
    expect(await states(holdfast, tenant)).toEqual(['COMMITTED', 'COMMITTED']);
  });

  test('in dollars, what is unknown costs the dearest price, and as much as whole numbers can say', async () => {
    const price = { input: 1, output: 2, cacheWrite: 3, cachedInput: 0.1 };
    const answer = { ...answerOf({ type: 'text', text: TEXT }), usage: usageOf(0, 0) };
    const inner = new MockLanguageModelV4({ doGenerate: answer });
    const model = withBudget(inner, await optionsOf({ price }));
    await holdfast.createBudget(tenant, '', 1e9, { unit: 'USD_MICROCENTS' });
    await model.doGenerate({ prompt: [] });
    await wire.answered(2);
    expect(wire.bodies.map(({ estimate, actual }) => (estimate ?? actual).amount)).toEqual([
      INPUT * 300 + OUTPUT * 200,
      INPUT * 300 + SEEN * 200,
    ]);
  });

  test('the calls of tools and files count as what came back, once', async () => {
    const call = { type: 'tool-call' as const, toolCallId: 'c', toolName: 'f', input: TEXT };
    const parts = [
      { type: 'tool-input-start' as const, id: 'c', toolName: 'f' },
      { type: 'tool-input-delta' as const, id: 'c', delta: TEXT },
      { type: 'tool-input-end' as const, id: 'c' },
      call,
      { ...call, toolCallId: 'd' },
    ];
    const model = withBudget(new MockLanguageModelV4({ doStream: streamOf(parts) }), await optionsOf());
    const { stream } = await model.doStream({ prompt: [] });
    for await (const _ of stream);
    expect(await figures(holdfast, tenant)).toBe(`${900 - 2 * SEEN} 0 ${INPUT + 2 * SEEN}`);
  });
});

describe('where nothing was counted and nothing came back', () => {
  const silent = { ...answerOf(), usage: usageOf(0, 0) };
  test.each([
    ['estimate', '400 0 600'],
    ['input', '800 0 200'],
    ['release', '1000 0 0'],
  ] as const)('a call costs what was chosen (%s)', async (unknownEnd, left) => {
    const inner = new MockLanguageModelV4({ doGenerate: silent, doStream: streamOf([], new Error('cut')) });
    const model = withBudget(inner, await optionsOf({ unknownEnd }));
    await model.doGenerate({ prompt: [] });
    const { stream } = await model.doStream({ prompt: [] });
    await expect(stream.getReader().read()).rejects.toThrow('cut');
    await states(holdfast, tenant);
    expect(await figures(holdfast, tenant)).toBe(left);
  });
});

test('a request that the provider could not make costs nothing', async () => {
  const error = new LoadAPIKeyError({ message: 'no key' });
  const inner = new MockLanguageModelV4({ doGenerate: () => Promise.reject(error) });
  const model = withBudget(inner, await optionsOf());
  await expect(generateText({ model, prompt: 'Hi' })).rejects.toThrow('no key');
  expect(await states(holdfast, tenant)).toEqual(['RELEASED']);
});

test('the bound counts the schema of the answer and the budget for thinking, which a cap leaves room for', async () => {
  const inner = new MockLanguageModelV4({ doGenerate: answerOf({ type: 'text', text: '{"result":"a"}' }) });
  const model = withBudget(inner, await optionsOf({ inputTokens: undefined }));
  const choice = Output.choice({ options: ['a', TEXT] });
  await generateText({ model, prompt: 'Hi' });
  await generateText({ model, prompt: 'Hi', output: choice });
  const thinking = { anthropic: { thinking: { type: 'enabled', budgetTokens: 300 } } };
  await generateText({ model, prompt: 'Hi', providerOptions: thinking });
  const reserves = wire.bodies.filter(({ estimate }) => estimate).map(({ estimate }) => estimate.amount);
  expect(reserves[1]).toBeGreaterThan(reserves[0] + SEEN);
  expect(reserves[2]).toBe(reserves[0] + 300);
  expect(inner.doGenerateCalls.at(-1)?.maxOutputTokens).toBe(OUTPUT);
  await states(holdfast, tenant);
});

describe('embeddings', () => {
  const embeddings = [[0.1], [0.2]];

  test.each([
    ['v3', MockEmbeddingModelV3],
    ['v4', MockEmbeddingModelV4],
  ])('of a model %s cost what their provider counts', async (version, Mock) => {
    const doEmbed = { embeddings: [[0.1]], usage: { tokens: 7 }, warnings: [] };
    const model = withBudget(new Mock({ doEmbed }), await optionsOf());
    expect(model.specificationVersion).toBe(version);
    expect((await embed({ model, value: 'Hi' })).embedding).toEqual([0.1]);
    expect(await figures(holdfast, tenant)).toBe('993 0 7');
    expect(wire.bodies[0]).toMatchObject({
      action: { kind: 'llm.embedding', name: 'mock-model-id' },
      estimate: { amount: INPUT },
    });
  });

  test.each([
    ['nothing', 0],
    ['no number', NaN],
    ['no usage', undefined],
  ])('are charged as they were sent if it counts %s', async (_, tokens) => {
    const usage = tokens === undefined ? {} : { usage: { tokens } };
    const doEmbed = { embeddings: [[0.1]], warnings: [], ...usage };
    const model = withBudget(new MockEmbeddingModelV4({ doEmbed }), await optionsOf());
    await embed({ model, value: 'Hi' });
    expect(await figures(holdfast, tenant)).toBe('900 0 100');
  });

  test('of many values are split as the model asks, with a reservation for each part', async () => {
    const doEmbed = { embeddings, usage: { tokens: 20 }, warnings: [] };
    const inner = new MockEmbeddingModelV4({ doEmbed, maxEmbeddingsPerCall: 2, maxInputBytesPerCall: 300 });
    const model = withBudget(inner, await optionsOf({ inputTokens: undefined }));
    const values = [TEXT, TEXT, TEXT, TEXT];
    expect((await embedMany({ model, values })).embeddings).toHaveLength(4);
    expect(inner.doEmbedCalls.map((call) => call.values.length)).toEqual([2, 2]);
    expect(await figures(holdfast, tenant)).toBe('960 0 40');
    const reserved = wire.bodies.flatMap(({ estimate }) => (estimate ? [estimate.amount as number] : []));
    expect(reserved).toHaveLength(2);
    expect(Math.min(...reserved)).toBeGreaterThan(2 * SEEN);
  });

  test('that the budget does not cover are not made', async () => {
    const inner = new MockEmbeddingModelV4();
    const model = withBudget(inner, await optionsOf({ inputTokens: () => 1001 }));
    expect(await refusalOf(embed({ model, value: 'Hi' }))).toMatchObject({ reason: 'denied' });
    expect(inner.doEmbedCalls).toEqual([]);
  });
});

describe('withBudget refuses', () => {
  /** As a program without types. */
  async function refused(model: unknown, more: object = {}): Promise<BudgetError> {
    const options = await optionsOf(more);
    return refusalOf(Promise.resolve().then(() => withBudget(model as MockLanguageModelV4, options)));
  }

  test.each([
    ['images', new MockImageModelV4()],
    ['speech', new MockSpeechModelV4()],
    ['transcription', new MockTranscriptionModelV4({ doStream: () => new Promise(() => undefined) })],
    ['reranking', new MockRerankingModelV4()],
    ['video', new MockVideoModelV4()],
    [
      'an older specification',
      { ...new MockLanguageModelV4(), specificationVersion: 'v2', supportedUrls: {} },
    ],
    ['an older embedding', { ...new MockEmbeddingModelV4(), specificationVersion: 'v2' }],
    ['a name', 'openai/gpt-5'],
    ['a provider', () => new MockLanguageModelV4()],
    ['nothing', undefined],
  ])('a model of %s', async (_, model) => {
    expect(await refused(model)).toMatchObject({ reason: 'misconfigured', code: 'UNSUPPORTED_MODEL' });
  });

  test.each([
    [{ price: { input: 1 } }, /price/],
    [{ price: { input: 1, output: NaN } }, /price/],
    [{ price: { input: 1, output: 2, cacheWrite: -1 } }, /price/],
    [{ price: undefined }, /price/],
    [{ unknownEnd: 'nothing' }, /unknownEnd/],
    [{ whenUnavailable: 'open' }, /whenUnavailable/],
    [{ maxOutputTokens: 1.5 }, /maxOutputTokens/],
    [{ ttlMs: 0 }, /ttlMs/],
    [{ subject: undefined }, /subject/],
  ])('%j', async (more, message) => {
    const error = await refused(new MockLanguageModelV4(), more);
    expect(error).toMatchObject({ reason: 'misconfigured', code: 'INVALID_OPTIONS' });
    expect(error.message).toMatch(message);
  });

  test('no call whose estimate is a fraction, and each whose estimate is no number', async () => {
    const inner = new MockLanguageModelV4({ doGenerate: answerOf({ type: 'text', text: 'hello' }) });
    await generateText({
      model: withBudget(inner, await optionsOf({ inputTokens: () => 99.5 })),
      prompt: 'Hi',
    });
    expect(await figures(holdfast, tenant)).toBe('870 0 130');
    for (const tokens of [NaN, -1, Infinity]) {
      const model = withBudget(inner, await optionsOf({ inputTokens: () => tokens }));
      expect((await refusalOf(generateText({ model, prompt: 'Hi' }))).code).toBe('INVALID_ESTIMATE');
      expect(wire.sent).toEqual([]);
    }
  });
});

test('what a handler of problems throws ends no call and leaves none unsettled', async () => {
  const warn = jest.spyOn(console, 'warn').mockReturnValue();
  const options = await optionsOf({
    unknownEnd: 'estimate',
    onProblem: () => {
      throw new Error('in the handler');
    },
  });
  const closed = new Wire((what, send) =>
    what === 'commit'
      ? Promise.resolve(Response.json({ error: 'INVALID_REQUEST', message: 'no' }, { status: 400 }))
      : send(),
  );
  const inner = new MockLanguageModelV4({ doStream: streamOf([...BEGIN]) });
  const model = withBudget(inner, { ...options, holdfast: { ...options.holdfast, fetch: closed.fetch } });
  let text = '';
  for await (const part of streamText({ model, prompt: 'Hi' }).textStream) {
    text += part;
  }
  expect(text).toBe('hello ');
  expect(closed.sent).toEqual(['reserve', 'commit']);
  expect(warn.mock.calls.map(([first]) => first as string)).toEqual([
    expect.stringContaining('102 TOKENS is not charged: Holdfast cannot decide: no'),
    expect.stringContaining('onProblem threw'),
  ]);
  warn.mockRestore();
});
