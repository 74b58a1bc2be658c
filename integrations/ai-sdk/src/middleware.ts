import { Hold, HoldfastClient, type HoldfastOptions, type Subject } from './client.js';
import { costOf, inputTokensOf, type Price, tokensIn, type Tokens, tokensOf, type Usage } from './cost.js';
import { BudgetError, costNothing } from './errors.js';

/** What a model of either version of the specification has, as far as a budget needs it. */
interface BudgetableModel {
  readonly specificationVersion: 'v3' | 'v4';
  readonly provider: string;
  readonly modelId: string;
  readonly supportedUrls: unknown;
  // Takes what the application gave, so no type of parameters is too narrow.
  readonly doGenerate: (options: never) => PromiseLike<GenerateResult>;
  readonly doStream: (options: never) => PromiseLike<StreamResult>;
}

/** The model without what is its own. */
type Budgeted<Model> = Model extends unknown ? Pick<Model, keyof BudgetableModel & keyof Model> : never;

interface GenerateResult {
  readonly content: unknown;
  readonly usage: Usage;
  readonly response?: { readonly modelId?: string };
}

interface StreamResult {
  readonly stream: ReadableStream<object>;
}

/** Parts that matter here; there are others. */
interface StreamPart {
  readonly type: string;
  readonly delta?: unknown;
  readonly usage?: Usage;
  readonly modelId?: string;
}

/** What is known of a call before it is made. */
export interface BudgetedCall {
  readonly modelId: string;
  readonly prompt: unknown;
  readonly tools?: unknown;
  readonly maxOutputTokens?: number;
  readonly abortSignal?: AbortSignal;
  /** What the application passed to generateText or streamText. */
  readonly providerOptions?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

export interface BudgetOptions {
  readonly holdfast: HoldfastOptions;
  readonly subject: Subject | ((call: BudgetedCall) => Subject);
  /** A call of a model without a price is refused. */
  readonly price: Price | ((modelId: string) => Price | undefined);
  /** Sent with calls that set none, because a reservation needs a bound; 4096 unless set. */
  readonly maxOutputTokens?: number;
  /** About how many tokens a call sends. By default a third of the bytes of its messages and tools, and 2000 for each file. */
  readonly inputTokens?: ((call: BudgetedCall) => number) | undefined;
  /** What a call costs if nobody learns how it ended, because this process or its connection broke. `estimate` unless set. */
  readonly unknownEnd?: 'estimate' | 'input' | 'release';
  /** How long a reservation outlives this process, 60000 unless set. It is extended while the call runs. */
  readonly ttlMs?: number;
  /** Whether calls are made without a reservation while Holdfast is away. `refuse` unless set. */
  readonly whenUnavailable?: 'refuse' | 'allow';
  /** Told about calls that were made without a reservation, and charges that could not be made. By default console.warn. */
  readonly onProblem?: (problem: BudgetError) => void;
}

const MAX_OUTPUT_TOKENS = 4096;
const TTL_MS = 60_000;

/**
 * The model, with a reservation around each of its calls: each attempt and each step of a tool loop is one call. Throws a BudgetError
 * instead of making a call that the budget does not cover.
 */
export function withBudget<Model extends BudgetableModel>(
  model: Model,
  options: BudgetOptions,
): Budgeted<Model> {
  const client = new HoldfastClient(options.holdfast);
  const begin = (given: object): Promise<RunningCall> =>
    beginCall(client, options, { ...(given as BudgetedCall), modelId: model.modelId });
  const budgeted: BudgetableModel = {
    specificationVersion: model.specificationVersion,
    provider: model.provider,
    modelId: model.modelId,
    get supportedUrls() {
      return model.supportedUrls;
    },
    async doGenerate(given: object) {
      const call = await begin(given);
      return call.failing(async () => {
        const result = await model.doGenerate(call.limited(given) as never);
        call.saw(JSON.stringify(result.content));
        await call.settle(result.usage, result.response?.modelId);
        return result;
      });
    },
    async doStream(given: object) {
      const call = await begin(given);
      return call.failing(async () => {
        const result = await model.doStream(call.limited(given) as never);
        return { ...result, stream: watched(result.stream, call) };
      });
    },
  };
  return budgeted as Budgeted<Model>;
}

/** @throws BudgetError, or the reason of a call that is aborted meanwhile */
async function beginCall(
  client: HoldfastClient,
  options: BudgetOptions,
  call: BudgetedCall,
): Promise<RunningCall> {
  const price = typeof options.price === 'function' ? options.price(call.modelId) : options.price;
  if (price === undefined) {
    throw unpriced(options.holdfast.url, call.modelId);
  }
  const input = options.inputTokens?.(call) ?? inputTokensOf(call);
  const output = call.maxOutputTokens ?? options.maxOutputTokens ?? MAX_OUTPUT_TOKENS;
  const estimate = costOf(price, { input, output });
  const inputCost = costOf(price, { input, output: 0 }).amount;
  const unknownCost = { estimate: estimate.amount, input: inputCost, release: 0 };
  const chargeOnExpiry = unknownCost[options.unknownEnd ?? 'estimate'];
  const problem = options.onProblem ?? warn;
  const terms: Terms = {
    price,
    input,
    output,
    unknownEnd: { ...estimate, amount: chargeOnExpiry },
    ttlMs: options.ttlMs ?? TTL_MS,
    problem,
  };
  const subject = typeof options.subject === 'function' ? options.subject(call) : options.subject;
  call.abortSignal?.throwIfAborted();
  const hold = await client
    .reserve({ subject, model: call.modelId, estimate, ttlMs: terms.ttlMs, chargeOnExpiry }, problem)
    .catch((error: unknown) => {
      if (
        options.whenUnavailable !== 'allow' ||
        !BudgetError.isInstance(error) ||
        error.reason !== 'unavailable'
      ) {
        throw error;
      }
      problem(error);
      return undefined;
    });
  if (call.abortSignal?.aborted === true) {
    await hold?.release(problem);
    throw call.abortSignal.reason;
  }
  return new RunningCall(hold, terms);
}

interface Terms {
  readonly price: Price;
  /** The estimates, in tokens. */
  readonly input: number;
  readonly output: number;
  readonly unknownEnd: ReturnType<typeof costOf>;
  readonly ttlMs: number;
  readonly problem: (problem: BudgetError) => void;
}

/** A call with its reservation, or without one while Holdfast is away. */
class RunningCall {
  readonly #hold: Hold | undefined;
  readonly #terms: Terms;
  readonly #startedAt = performance.now();
  #beat: ReturnType<typeof setTimeout> | undefined;
  #isSettled = false;
  /** About how many tokens the answer had so far. */
  #seen = 0;

  constructor(hold: Hold | undefined, terms: Terms) {
    this.#hold = hold;
    this.#terms = terms;
    this.#extendLater();
  }

  /** The application's call with the bound that the reservation relies on. */
  limited(given: object): object {
    const { output } = this.#terms;
    return { ...given, maxOutputTokens: Math.min(output, this.#hold?.maxTokens ?? output) };
  }

  saw(text: string): void {
    this.#seen += tokensIn(text);
  }

  /** Passes on what the call throws, and charges for it. */
  async failing<Result>(run: () => Promise<Result>): Promise<Result> {
    try {
      return await run();
    } catch (error) {
      await this.#end((hold) => {
        const cost = this.#terms.unknownEnd;
        return costNothing(error) || cost.amount === 0
          ? hold.release(this.#terms.problem)
          : hold.commit(cost, this.#metrics({ input: this.#terms.input, output: 0 }), this.#terms.problem);
      });
      throw error;
    }
  }

  /** Charges what the provider counted, or else what was sent and seen. */
  async settle(usage: Usage | undefined, modelId?: string): Promise<void> {
    const tokens = tokensOf(usage) ?? { input: this.#terms.input, output: this.#seen };
    await this.#end((hold) =>
      hold.commit(costOf(this.#terms.price, tokens), this.#metrics(tokens, modelId), this.#terms.problem),
    );
  }

  /** Runs once. */
  async #end(settle: (hold: Hold) => Promise<void>): Promise<void> {
    clearTimeout(this.#beat);
    if (this.#hold !== undefined && !this.#isSettled) {
      this.#isSettled = true;
      await settle(this.#hold);
    }
  }

  #metrics({ input, output }: Tokens, modelId?: string): Parameters<Hold['commit']>[1] {
    return {
      tokens_input: input,
      tokens_output: output,
      latency_ms: Math.round(performance.now() - this.#startedAt),
      ...(modelId === undefined ? {} : { model_version: modelId.slice(0, 128) }),
    };
  }

  /** At half of the time, so that one attempt may fail, by as much as has passed. */
  #extendLater(): void {
    const byMs = Math.ceil(this.#terms.ttlMs / 2);
    this.#beat = setTimeout(() => {
      void this.#hold?.extend(byMs).then((maySucceedAgain) => {
        if (maySucceedAgain && !this.#isSettled) {
          this.#extendLater();
        }
      });
    }, byMs);
    // Not in every runtime is a timer an object.
    (this.#beat as { unref?: () => void }).unref?.();
  }
}

/**
 * The same parts. They are read as fast as they come, not as fast as the application reads: one that leaves its loop without an abort
 * does not stop the provider, and only the end of the stream tells what it cost.
 */
function watched(stream: ReadableStream<object>, call: RunningCall): ReadableStream<object> {
  const reader = stream.getReader() as ReadableStreamDefaultReader<StreamPart>;
  let usage: Usage | undefined;
  let modelId: string | undefined;
  const note = (part: StreamPart): void => {
    if (part.type === 'finish') {
      usage = part.usage;
    } else if (part.type === 'response-metadata') {
      modelId = part.modelId;
    } else if (typeof part.delta === 'string') {
      call.saw(part.delta);
    }
  };
  const arrived: object[] = [];
  let end: { readonly error?: unknown } | undefined;
  let wake = (): void => undefined;
  const pump = async (): Promise<void> => {
    let reason = {};
    try {
      for (let next = await reader.read(); !next.done; next = await reader.read()) {
        note(next.value);
        arrived.push(next.value);
        wake();
      }
    } catch (error) {
      reason = { error };
    }
    await call.settle(usage, modelId);
    end = reason;
    wake();
  };
  return new ReadableStream<object>({
    start() {
      void pump();
    },
    async pull(controller) {
      while (arrived.length === 0 && end === undefined) {
        await new Promise<void>((done) => (wake = done));
      }
      const part = arrived.shift();
      if (part !== undefined) {
        controller.enqueue(part);
      } else if (end !== undefined && 'error' in end) {
        controller.error(end.error);
      } else {
        controller.close();
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

function unpriced(url: string, modelId: string): BudgetError {
  return new BudgetError({
    reason: 'misconfigured',
    code: 'UNPRICED_MODEL',
    message: `The model ${modelId} has no price, so its calls cannot be budgeted`,
    url,
    statusCode: 400,
    isRetryable: false,
  });
}

function warn(problem: BudgetError): void {
  // eslint-disable-next-line no-console -- who sets no handler must still learn of it
  console.warn(`holdfast: ${problem.message}`);
}
