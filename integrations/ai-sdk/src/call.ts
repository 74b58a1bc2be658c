import { bytesOfPart, chargeOf, type Price, type Tokens, tokensInBytes, type Usage } from './cost.js';
import { costNothing } from './errors.js';
import type { Hold } from './hold.js';

interface Terms {
  readonly price: Price;
  /** The estimates, in tokens. The output's is its bound. */
  readonly input: number;
  readonly output: number;
  /** What the call costs if nobody learns its end. */
  readonly unknownEnd: number;
  /** How long the answer to the application waits for its charge, so that the next call finds its budget settled. */
  readonly waitMs: number;
}

/** A call with its reservation. */
export class RunningCall {
  readonly #hold: Hold;
  readonly #terms: Terms;
  readonly #startedAt = performance.now();
  /** The text of the answer so far. */
  #bytes = 0;
  readonly #streamedInputs = new Set<unknown>();
  #isAnswered = false;

  constructor(hold: Hold, terms: Terms) {
    this.#hold = hold;
    this.#terms = terms;
  }

  /** A part of an answer or of its stream. */
  saw(part: object): void {
    const { type, id, toolCallId } = part as Readonly<Record<string, unknown>>;
    if (type === 'tool-input-start') {
      this.#streamedInputs.add(id);
    }
    // The input of a tool's call comes again in one piece.
    if (type !== 'tool-call' || !this.#streamedInputs.has(toolCallId)) {
      this.#bytes += bytesOfPart(part);
    }
  }

  /** An answer whose parts are not counted. */
  answered(): void {
    this.#isAnswered = true;
  }

  /** Passes on what the call throws, and charges for it. */
  async failing<Result>(run: () => Promise<Result>): Promise<Result> {
    try {
      return await run();
    } catch (error) {
      await this.#fail(costNothing(error));
      throw error;
    }
  }

  /** Charges what the provider counted, or else what was sent and seen, or what a call costs whose end nobody knows. */
  async settle(usage: Usage | undefined, modelId?: string, failure?: unknown): Promise<void> {
    const { price, input, output, waitMs } = this.#terms;
    const seen = Math.min(output, tokensInBytes(this.#bytes));
    const charge = chargeOf(price, usage, { sent: input, seen, isAnswered: this.#isAnswered });
    if (charge === undefined) {
      await this.#fail(costNothing(failure));
    } else {
      await forAWhile(waitMs, this.#hold.commit(charge.amount, this.#metrics(charge.tokens, modelId)));
    }
  }

  async #fail(isFree: boolean): Promise<void> {
    const { unknownEnd, input, waitMs } = this.#terms;
    const isNothing = isFree || unknownEnd === 0;
    const tokens = { input: Math.ceil(input), output: 0 };
    await forAWhile(
      waitMs,
      isNothing ? this.#hold.release() : this.#hold.commit(unknownEnd, this.#metrics(tokens)),
    );
  }

  #metrics({ input, output }: Tokens, modelId?: string): Parameters<Hold['commit']>[1] {
    return {
      tokens_input: input,
      tokens_output: output,
      latency_ms: Math.round(performance.now() - this.#startedAt),
      ...(modelId === undefined ? {} : { model_version: modelId.slice(0, 128) }),
    };
  }
}

/** Waits for work that goes on if it takes longer. */
export async function forAWhile(ms: number, work: Promise<void>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  await Promise.race([work, new Promise<void>((done) => (timer = setTimeout(done, ms)))]);
  clearTimeout(timer);
}

/** Parts that matter here; there are others. */
interface StreamPart {
  readonly type: string;
  readonly usage?: Usage;
  readonly modelId?: string;
  readonly error?: unknown;
}

/**
 * The same parts. They are read as fast as they come, not as fast as the application reads: one that leaves its loop without an abort
 * does not stop the provider, and only the end of the stream tells what it cost.
 */
export function watched(stream: ReadableStream<object>, call: RunningCall): ReadableStream<object> {
  const reader = stream.getReader() as ReadableStreamDefaultReader<StreamPart>;
  let usage: Usage | undefined;
  let modelId: string | undefined;
  let failure: unknown;
  const note = (part: StreamPart): void => {
    if (part.type === 'finish') {
      usage = part.usage;
    } else if (part.type === 'response-metadata') {
      modelId = part.modelId;
    } else if (part.type === 'error') {
      failure = part.error;
    } else {
      call.saw(part);
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
      failure = error;
      reason = { error };
    }
    await call.settle(usage, modelId, failure);
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
