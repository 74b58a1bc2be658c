import type { LanguageModelV4GenerateResult, LanguageModelV4StreamPart } from '@ai-sdk/provider';
import { expect } from '@jest/globals';
import { BudgetError, type BudgetOptions, TOKENS } from '../../integrations/ai-sdk/src/index.js';
import { eventually } from './eventually.js';
import { expectStatus, type HoldfastClient, type Json, type TestTenant } from './holdfast.js';

type Send = () => Promise<Response>;

/** The answered requests to Holdfast in their order, such as `reserve`. What `instead` returns is in place of the answer. */
export class Wire {
  readonly sent: string[] = [];
  readonly bodies: Json[] = [];
  readonly headers: Headers[] = [];
  readonly problems: BudgetError[] = [];

  constructor(
    private readonly instead: (what: string, send: Send) => Promise<Response> = (_, send) => send(),
  ) {}

  readonly fetch: typeof fetch = async (url, init) => {
    const last = (url as string).split('/').at(-1) as string;
    const what = last === 'reservations' ? 'reserve' : last;
    const response = await this.instead(what, () => fetch(url, init));
    this.sent.push(what);
    this.bodies.push(JSON.parse(init?.body as string));
    this.headers.push(new Headers(init?.headers));
    return response;
  };

  /** What was sent, as soon as so many are answered: a call does not wait for its charge for long. */
  answered(count: number): Promise<string[]> {
    return eventually(`${count} requests are answered`, () => this.sent.length >= count && this.sent);
  }
}

export const INPUT = 100;
export const OUTPUT = 200;

/** A third of the budget of a funded tenant is an estimate. */
export const budgetOptions = (
  { url }: HoldfastClient,
  { id, key }: TestTenant,
  wire: Wire,
  more: Partial<BudgetOptions> = {},
): BudgetOptions => ({
  holdfast: { url, apiKey: key, fetch: wire.fetch, timeoutMs: 30_000 },
  subject: { tenant: id },
  price: TOKENS,
  inputTokens: () => INPUT,
  maxOutputTokens: OUTPUT,
  onProblem: (problem) => void wire.problems.push(problem),
  ...more,
});

export const usageOf = (input: number | undefined, output: number | undefined) => ({
  inputTokens: { total: input, noCache: input, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: output, text: output, reasoning: undefined },
});

export const answerOf = (
  ...content: LanguageModelV4GenerateResult['content']
): LanguageModelV4GenerateResult => ({
  content,
  finishReason: { unified: 'stop', raw: 'stop' },
  usage: usageOf(90, 40),
  warnings: [],
});

export const HELLO = answerOf({ type: 'text', text: 'hello' });

export const BEGIN: readonly LanguageModelV4StreamPart[] = [
  { type: 'stream-start', warnings: [] },
  { type: 'text-start', id: '1' },
  { type: 'text-delta', id: '1', delta: 'hello ' },
];
export const FINISH: readonly LanguageModelV4StreamPart[] = [
  { type: 'text-end', id: '1' },
  { type: 'finish', usage: usageOf(90, 40), finishReason: { unified: 'stop', raw: 'stop' } },
];

/** A stream of these parts, which breaks with the error, if there is one. */
export function streamOf(
  parts: readonly LanguageModelV4StreamPart[],
  error?: Error,
): { stream: ReadableStream<LanguageModelV4StreamPart> } {
  const left = [...parts];
  return {
    stream: new ReadableStream({
      pull(controller) {
        const next = left.shift();
        if (next !== undefined) {
          controller.enqueue(next);
        } else if (error === undefined) {
          controller.close();
        } else {
          controller.error(error);
        }
      },
    }),
  };
}

/** The states of the tenant's reservations, in the order of the alphabet, as soon as all have ended. */
export const states = (holdfast: HoldfastClient, { id, key }: TestTenant): Promise<string[]> =>
  eventually('every reservation has ended', async () => {
    const answer = await holdfast.call('GET', `/v1/reservations?tenant=${id}`, { key, extended: true });
    const found = (expectStatus(answer, 200).reservations as Json[]).map(({ status }) => status as string);
    return found.includes('ACTIVE') ? undefined : found.sort();
  });

/** What of a budget of the tenant remains, is held and is spent, as soon as nothing is held. */
export const figures = (holdfast: HoldfastClient, tenant: TestTenant): Promise<string> =>
  eventually('nothing is held', async () => {
    const figure = (await holdfast.balances(tenant))[`tenant:${tenant.id}`] ?? '';
    const [remaining, reserved, spent] = figure.split(' ');
    return reserved === '0' ? `${remaining} ${reserved} ${spent}` : undefined;
  });

/** The BudgetError that the call must end with. */
export async function refusalOf(call: PromiseLike<unknown>): Promise<BudgetError> {
  const error: unknown = await Promise.resolve(call).then(
    () => 'nothing was refused',
    (reason: unknown) => reason,
  );
  if (!BudgetError.isInstance(error)) {
    throw new Error('expected a BudgetError', { cause: error });
  }
  expect(error).toBeInstanceOf(Error);
  return error;
}
