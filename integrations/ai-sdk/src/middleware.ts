import { forAWhile, RunningCall, watched } from './call.js';
import { HoldfastClient } from './client.js';
import { boundOf, faultOf, inputTokensOf, thinkingTokensOf, unitOf, type Usage } from './cost.js';
import { BudgetError } from './errors.js';
import { Hold } from './hold.js';
import { type BudgetedCall, type BudgetOptions, faultOfOptions } from './options.js';
import { subjectOf } from './subject.js';

/** What a language model of either version of the specification has, as far as a budget needs it. */
interface BudgetableLanguageModel {
  readonly specificationVersion: 'v3' | 'v4';
  readonly provider: string;
  readonly modelId: string;
  readonly supportedUrls: unknown;
  // Takes what the application gave, so no type of parameters is too narrow.
  readonly doGenerate: (options: never) => PromiseLike<GenerateResult>;
  readonly doStream: (options: never) => PromiseLike<StreamResult>;
}

/** The same of an embedding model. */
interface BudgetableEmbeddingModel {
  readonly specificationVersion: 'v3' | 'v4';
  readonly provider: string;
  readonly modelId: string;
  readonly maxEmbeddingsPerCall: unknown;
  readonly supportsParallelCalls: unknown;
  readonly doEmbed: (options: never) => PromiseLike<EmbedResult>;
}

export type BudgetableModel = BudgetableLanguageModel | BudgetableEmbeddingModel;

/** The model without what is its own. */
type Budgeted<Model> = Model extends BudgetableLanguageModel
  ? Pick<Model, keyof BudgetableLanguageModel & keyof Model>
  : Pick<Model, keyof BudgetableEmbeddingModel & keyof Model>;

interface GenerateResult {
  readonly content: readonly object[];
  readonly usage: Usage;
  readonly response?: { readonly modelId?: string };
}

interface StreamResult {
  readonly stream: ReadableStream<object>;
}

interface EmbedResult {
  readonly usage?: { readonly tokens: number };
}

const MAX_OUTPUT_TOKENS = 4096;
const TTL_MS = 60_000;
/** What the SDK reads of an embedding model besides its specification, to split what embedMany is given. */
const EXTRAS = ['maxInputBytesPerCall', 'providerOptionsTransformer'].map((name) =>
  Symbol.for(`vercel.ai.embeddingModel.${name}`),
);

/**
 * The model, with a reservation around each of its calls: each attempt, each step of a tool loop, and each part of the values of
 * embedMany is one call. Throws a BudgetError instead of making a call that the budget does not cover.
 *
 * @throws BudgetError if calls of such a model cannot be counted, or if the options are wrong
 */
export function withBudget<Model extends BudgetableModel>(
  model: Model,
  options: BudgetOptions,
): Budgeted<Model> {
  const client = new HoldfastClient(options.holdfast);
  const fault = faultOfOptions(options);
  if (fault !== undefined) {
    throw client.misconfigured('INVALID_OPTIONS', `withBudget: ${fault}`);
  }
  return (isEmbeddingModel(model)
    ? embedding(model, client, options)
    : language(languageModel(model, client), client, options)) as unknown as Budgeted<Model>;
}

const KNOWN_VERSIONS = ['v3', 'v4'];

function isEmbeddingModel(model: BudgetableModel): model is BudgetableEmbeddingModel {
  return 'doEmbed' in Object(model) && KNOWN_VERSIONS.includes(model.specificationVersion);
}

/** The model, unless it is another kind of model, a name or a provider: none of those is billed by the tokens of a message. */
function languageModel(model: BudgetableLanguageModel, client: HoldfastClient): BudgetableLanguageModel {
  const { specificationVersion, modelId, doGenerate, doStream } = Object(model) as typeof model;
  // Models of images, speech and transcription have some of these, too.
  const isOne =
    [doGenerate, doStream].every((method) => typeof method === 'function') && 'supportedUrls' in model;
  if (isOne && KNOWN_VERSIONS.includes(specificationVersion)) {
    return model;
  }
  const name =
    typeof model === 'string' ? `The name ${String(model)}` : `The model ${modelId ?? 'without an id'}`;
  const text = `${name} cannot have a budget: withBudget takes language and embedding models of the specifications v3 and v4`;
  throw client.misconfigured('UNSUPPORTED_MODEL', text);
}

function language(
  model: BudgetableLanguageModel,
  client: HoldfastClient,
  options: BudgetOptions,
): BudgetableLanguageModel {
  const begin = (given: object): Promise<{ call: RunningCall; limited: never }> =>
    beginCall(client, options, { ...(given as BudgetedCall), modelId: model.modelId }, 'llm.completion').then(
      ({ call, maxOutputTokens }) => ({ call, limited: { ...given, maxOutputTokens } as never }),
    );
  return {
    specificationVersion: model.specificationVersion,
    provider: model.provider,
    modelId: model.modelId,
    get supportedUrls() {
      return model.supportedUrls;
    },
    async doGenerate(given: object) {
      const { call, limited } = await begin(given);
      return call.failing(async () => {
        const result = await model.doGenerate(limited);
        result.content.forEach((part) => call.saw(part));
        await call.settle(result.usage, result.response?.modelId);
        return result;
      });
    },
    async doStream(given: object) {
      const { call, limited } = await begin(given);
      return call.failing(async () => {
        const result = await model.doStream(limited);
        return { ...result, stream: watched(result.stream, call) };
      });
    },
  };
}

function embedding(
  model: BudgetableEmbeddingModel,
  client: HoldfastClient,
  options: BudgetOptions,
): BudgetableEmbeddingModel {
  const extras = EXTRAS.map((name) => [name, (model as unknown as Record<symbol, unknown>)[name]]);
  return {
    ...(Object.fromEntries(extras) as object),
    specificationVersion: model.specificationVersion,
    provider: model.provider,
    modelId: model.modelId,
    get maxEmbeddingsPerCall() {
      return model.maxEmbeddingsPerCall;
    },
    get supportsParallelCalls() {
      return model.supportsParallelCalls;
    },
    async doEmbed(given: object) {
      const asked = { ...(given as BudgetedCall), modelId: model.modelId };
      const { call } = await beginCall(client, options, asked, 'llm.embedding');
      return call.failing(async () => {
        const result = await model.doEmbed(given as never);
        call.answered();
        await call.settle({ inputTokens: { total: result.usage?.tokens }, outputTokens: { total: 0 } });
        return result;
      });
    },
  };
}

interface Begun {
  readonly call: RunningCall;
  /** The bound of the output that the reservation relies on. */
  readonly maxOutputTokens: number;
}

/** @throws BudgetError, or the reason of a call that is aborted meanwhile */
async function beginCall(
  client: HoldfastClient,
  options: BudgetOptions,
  call: BudgetedCall,
  kind: 'llm.completion' | 'llm.embedding',
): Promise<Begun> {
  const { modelId, abortSignal } = call;
  const price = typeof options.price === 'function' ? options.price(modelId, call) : options.price;
  if (price === undefined) {
    const text = `The model ${modelId} has no price, so its calls cannot be budgeted`;
    throw client.misconfigured('UNPRICED_MODEL', text);
  }
  const hasOutput = kind === 'llm.completion';
  const input = options.inputTokens?.(call) ?? inputTokensOf(call);
  const maxOutputTokens = call.maxOutputTokens ?? options.maxOutputTokens ?? MAX_OUTPUT_TOKENS;
  // Some providers add the budget for thinking to what they were given.
  const thinking = thinkingTokensOf(call.providerOptions);
  const output = hasOutput ? maxOutputTokens + thinking : 0;
  const amount = boundOf(price, { input, output });
  const fault = faultOf(price) ?? faultOfBound(amount, input);
  if (fault !== undefined) {
    throw client.misconfigured('INVALID_ESTIMATE', `The model ${modelId} cannot be budgeted: ${fault}`);
  }
  const unknownEnd = { estimate: amount, input: boundOf(price, { input, output: 0 }), release: 0 }[
    options.unknownEnd ?? 'estimate'
  ];
  const report = reporting(options.onProblem ?? warn);
  const subject = await subjectOf(
    typeof options.subject === 'function' ? options.subject(call) : options.subject,
  );
  const request = {
    subject,
    action: { kind, name: modelId },
    estimate: { unit: unitOf(price), amount },
    ttlMs: options.ttlMs ?? TTL_MS,
    chargeOnExpiry: unknownEnd,
  };
  abortSignal?.throwIfAborted();
  const hold = new Hold(client, request, report);
  await hold.reserve().catch((error: unknown) => {
    const isAway = BudgetError.isInstance(error) && error.reason === 'unavailable';
    if (!isAway || options.whenUnavailable !== 'allow') {
      throw error;
    }
    report(error);
  });
  if (abortSignal?.aborted === true) {
    await forAWhile(client.timeoutMs, hold.release());
    throw abortSignal.reason;
  }
  const cap = Math.max(1, (hold.maxTokens ?? Infinity) - thinking);
  return {
    call: new RunningCall(hold, { price, input, output, unknownEnd, waitMs: client.timeoutMs }),
    maxOutputTokens: Math.min(maxOutputTokens, cap),
  };
}

function faultOfBound(amount: number, input: number): string | undefined {
  return Number.isSafeInteger(amount) && input >= 0
    ? undefined
    : `its bound is ${amount}; inputTokens and maxOutputTokens give numbers from 0 on`;
}

/** What an application's handler throws must not end a call or leave one unsettled. */
function reporting(onProblem: (problem: BudgetError) => void): (problem: BudgetError) => void {
  return (problem) => {
    try {
      onProblem(problem);
    } catch (error) {
      warn(problem);
      // eslint-disable-next-line no-console -- it would be lost otherwise
      console.warn('holdfast: onProblem threw', error);
    }
  };
}

function warn(problem: BudgetError): void {
  // eslint-disable-next-line no-console -- who sets no handler must still learn of it
  console.warn(`holdfast: ${problem.message}`);
}
