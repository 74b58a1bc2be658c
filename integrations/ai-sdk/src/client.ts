import type { Amount } from './cost.js';
import { BudgetError, costNothing } from './errors.js';

export interface HoldfastOptions {
  /** Such as `https://holdfast.example.com`. */
  readonly url: string;
  readonly apiKey: string;
  /** How long a call waits for Holdfast in all, 1000 unless set. */
  readonly timeoutMs?: number;
  readonly fetch?: typeof fetch;
}

/** Whose budgets a call is charged to; at least one level. */
export interface Subject {
  readonly tenant?: string;
  readonly workspace?: string;
  readonly app?: string;
  readonly workflow?: string;
  readonly agent?: string;
  readonly toolset?: string;
  readonly dimensions?: Readonly<Record<string, string>>;
}

export interface ReserveRequest {
  readonly subject: Subject;
  readonly model: string;
  readonly estimate: Amount;
  readonly ttlMs: number;
  /** What the reservation costs if nobody settles it. */
  readonly chargeOnExpiry: number;
}

/** Told what could not be settled. */
type Failed = (error: BudgetError) => void;

export interface Metrics {
  readonly tokens_input: number;
  readonly tokens_output: number;
  readonly latency_ms: number;
  readonly model_version?: string;
}

interface Answer {
  readonly status: number;
  readonly retryAfterMs: number | undefined;
  readonly body: {
    readonly error?: string;
    readonly message?: string;
    readonly reservation_id?: string;
    readonly caps?: { readonly max_tokens?: number };
    readonly details?: { readonly scope?: string; readonly retry_after_ms?: number };
  };
}

const TIMEOUT_MS = 1000;
/** Pauses between attempts of what must be told, 15 s in all. After that, the reservation expires and charges what it was given to charge. */
const PAUSES_MS = [200, 500, 1000, 2000, 4000, 8000];

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));
const isTransient = ({ status }: Answer): boolean => status >= 500 || status === 429;

export class HoldfastClient {
  readonly #options: HoldfastOptions;
  readonly #url: string;

  constructor(options: HoldfastOptions) {
    this.#options = options;
    this.#url = `${options.url.replace(/\/+$/, '')}/v1/`;
  }

  /** @throws BudgetError */
  async reserve(request: ReserveRequest, failed: Failed): Promise<Hold> {
    // A key of its own for each attempt of the SDK: each may be billed.
    const key = `ai-sdk:${crypto.randomUUID()}`;
    const send = (): Promise<Answer> =>
      this.send(
        'reservations',
        {
          idempotency_key: key,
          subject: request.subject,
          action: actionOf(request),
          estimate: request.estimate,
          ttl_ms: request.ttlMs,
        },
        {
          'x-holdfast-charge-on-expiry': String(request.chargeOnExpiry),
          'x-holdfast-explain': 'true',
        },
      );
    const holdOf = ({ body }: Answer): Hold | undefined =>
      body.reservation_id === undefined
        ? undefined
        : new Hold(this, request, key, body.reservation_id, body.caps?.max_tokens);
    let answer: Answer;
    try {
      answer = await send();
    } catch (error) {
      if (!costNothing(error)) {
        // It may arrive nevertheless, and would be charged for a call that is not made: the same request finds it, to be released.
        void this.deliver(send, () => undefined).then((late) => late && holdOf(late)?.release(failed));
      }
      throw this.#unavailable(error);
    }
    const hold = answer.status === 200 ? holdOf(answer) : undefined;
    if (hold === undefined) {
      throw this.#refusal(answer);
    }
    return hold;
  }

  /** @throws whatever fetch throws, also when there is no answer in time */
  async send(path: string, body: object, headers: Record<string, string> = {}): Promise<Answer> {
    const { fetch: fetchOf = fetch, apiKey, timeoutMs = TIMEOUT_MS } = this.#options;
    const response = await fetchOf(this.#url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-cycles-api-key': apiKey, ...headers },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(timeoutMs),
    });
    const answer = (await response.json()) as Answer['body'];
    const seconds = Number(response.headers.get('retry-after') ?? NaN);
    return { status: response.status, retryAfterMs: seconds >= 0 ? seconds * 1000 : undefined, body: answer };
  }

  /** Resolves after the first attempt that gets a final answer, or after the last attempt with undefined. */
  async deliver(send: () => Promise<Answer>, failed: Failed): Promise<Answer | undefined> {
    for (let attempt = 0; ; attempt += 1) {
      let problem: BudgetError;
      try {
        const answer = await send();
        if (answer.status === 200 || answer.status === 201) {
          return answer;
        }
        problem = this.#refusal(answer);
        if (!isTransient(answer)) {
          failed(problem);
          return undefined;
        }
      } catch (error) {
        problem = this.#unavailable(error);
      }
      const ms = PAUSES_MS[attempt];
      if (ms === undefined) {
        failed(problem);
        return undefined;
      }
      await pause(ms);
    }
  }

  #unavailable(cause: unknown): BudgetError {
    return new BudgetError({
      reason: 'unavailable',
      code: 'UNAVAILABLE',
      message: `Holdfast gave no answer: ${cause instanceof Error ? cause.message : String(cause)}`,
      url: this.#url,
      statusCode: 503,
      isRetryable: true,
      cause,
    });
  }

  #refusal({ status, retryAfterMs, body }: Answer): BudgetError {
    const { error: code = 'UNKNOWN', message = 'no reason given', details } = body;
    const parts = { code, url: this.#url, body, scope: details?.scope };
    if (status >= 500) {
      const text = `Holdfast is unavailable: ${message}`;
      return new BudgetError({
        ...parts,
        reason: 'unavailable',
        message: text,
        statusCode: 503,
        isRetryable: true,
        retryAfterMs,
      });
    }
    if (status === 409 || status === 429) {
      return new BudgetError({
        ...parts,
        reason: 'denied',
        message: `Denied by the budget: ${message}`,
        // A rate lets the next one through soon. Nothing else is worth a retry by a library that does not know the budget.
        statusCode: status === 429 ? 429 : 402,
        isRetryable: status === 429,
        retryAfterMs: details?.retry_after_ms ?? retryAfterMs,
      });
    }
    return new BudgetError({
      ...parts,
      reason: 'misconfigured',
      message: `Holdfast cannot decide: ${message}`,
      statusCode: status,
      isRetryable: false,
    });
  }
}

const actionOf = ({ model }: ReserveRequest): object => ({ kind: 'llm.completion', name: model });

/** The reservation of one call. */
export class Hold {
  readonly #client: HoldfastClient;
  readonly #request: ReserveRequest;
  readonly #key: string;
  readonly #path: string;

  constructor(
    client: HoldfastClient,
    request: ReserveRequest,
    key: string,
    id: string,
    /** What a policy caps the output to. */
    readonly maxTokens: number | undefined,
  ) {
    this.#client = client;
    this.#request = request;
    this.#key = key;
    this.#path = `reservations/${id}/`;
  }

  /** @returns whether a further extension may succeed */
  async extend(byMs: number): Promise<boolean> {
    const body = { idempotency_key: `ai-sdk:${crypto.randomUUID()}`, extend_by_ms: byMs };
    const answer = await this.#client.send(`${this.#path}extend`, body).catch(() => undefined);
    return answer === undefined || answer.status === 200 || isTransient(answer);
  }

  async commit(actual: Amount, metrics: Metrics, failed: Failed): Promise<void> {
    const commit = { idempotency_key: `${this.#key}:commit`, actual, metrics };
    const send = async (): Promise<Answer> => {
      const answer = await this.#client.send(`${this.#path}commit`, commit);
      return answer.status === 410 ? ((await this.#late(actual, metrics)) ?? answer) : answer;
    };
    await this.#client.deliver(send, failed);
  }

  async release(failed: Failed): Promise<void> {
    const body = { idempotency_key: `${this.#key}:release` };
    await this.#client.deliver(() => this.#client.send(`${this.#path}release`, body), failed);
  }

  /** Charges what the reservation did not when it expired, if there is anything. */
  async #late(actual: Amount, metrics: Metrics): Promise<Answer | undefined> {
    const { subject, chargeOnExpiry } = this.#request;
    const amount = actual.amount - chargeOnExpiry;
    if (amount <= 0) {
      return undefined;
    }
    return this.#client.send('events', {
      idempotency_key: `${this.#key}:late`,
      subject,
      action: actionOf(this.#request),
      actual: { ...actual, amount },
      metrics,
    });
  }
}
