import { BudgetError } from './errors.js';

export interface HoldfastOptions {
  /** Such as `https://holdfast.example.com`. */
  readonly url: string;
  /** A function is asked for each request, so that a key can be replaced while calls run. */
  readonly apiKey: string | (() => string | Promise<string>);
  /** How long a call waits for its reservation, and then for its charge; 1000 unless set. The first counts only time in which this process could listen. */
  readonly timeoutMs?: number;
  readonly fetch?: typeof fetch;
}

export interface Answer {
  readonly status: number;
  readonly retryAfterMs: number | undefined;
  readonly body: {
    readonly error?: string;
    readonly message?: string;
    readonly reservation_id?: string;
    readonly charged?: { readonly amount: number };
    readonly caps?: { readonly max_tokens?: number };
    readonly details?: { readonly scope?: string; readonly retry_after_ms?: number };
  };
}

const TIMEOUT_MS = 1000;
/** One request in the background, which nobody waits for. */
const BACKGROUND_MS = 5000;
/** Of each turn of the event loop, at most this counts as waiting. A busy process would otherwise take its own delay for Holdfast's. */
const TURN_MS = 50;
/** For so long a request that must arrive is tried again. */
const PATIENCE_MS = 900_000;
const FIRST_PAUSE_MS = 200;
const MOST_PAUSE_MS = 10_000;

/** A process that has nothing else to do may end during the longest pauses. What the reservation costs on expiry is charged then. */
function pause(ms: number): Promise<void> {
  return new Promise((done) => {
    const timer: { unref?: () => void } | number = setTimeout(done, ms);
    if (ms === MOST_PAUSE_MS && typeof timer === 'object') {
      timer.unref?.();
    }
  });
}

/** Whether another attempt may get another answer. A key that is unknown or may too little may be replaced meanwhile. */
const isTransient = ({ status }: Answer): boolean => status >= 500 || [401, 403, 429].includes(status);

export class HoldfastClient {
  readonly #options: HoldfastOptions;
  readonly #url: string;
  readonly timeoutMs: number;

  constructor(options: HoldfastOptions) {
    this.#options = options;
    this.timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    this.#url = `${options.url.replace(/\/+$/, '')}/v1/`;
  }

  /** One request that a call waits for. @throws whatever fetch throws, also when there is no answer in time */
  ask(path: string, body: object, headers?: Record<string, string>): Promise<Answer> {
    return this.#send(path, body, headers, this.timeoutMs);
  }

  /** One request that nothing waits for. @throws as `ask` */
  tell(path: string, body: object, headers?: Record<string, string>): Promise<Answer> {
    return this.#send(path, body, headers, Math.max(BACKGROUND_MS, this.timeoutMs));
  }

  /**
   * The first answer that another attempt would not change, or that has the status `last`. Its idempotency key makes repeating safe.
   * @throws BudgetError after 15 minutes
   */
  async insist(path: string, body: object, headers?: Record<string, string>, last?: number): Promise<Answer> {
    const until = performance.now() + PATIENCE_MS;
    for (let ms = FIRST_PAUSE_MS; ; ms = Math.min(MOST_PAUSE_MS, 2 * ms)) {
      let problem: BudgetError;
      try {
        const answer = await this.tell(path, body, headers);
        if (!isTransient(answer) || answer.status === last) {
          return answer;
        }
        problem = this.refusal(answer);
      } catch (error) {
        problem = this.unavailable(error);
      }
      if (performance.now() > until) {
        throw problem;
      }
      await pause(ms);
    }
  }

  unavailable(cause: unknown): BudgetError {
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

  refusal({ status, retryAfterMs, body }: Answer): BudgetError {
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
    return this.misconfigured(code, `Holdfast cannot decide: ${message}`, status, body);
  }

  misconfigured(code: string, message: string, statusCode = 400, body?: object): BudgetError {
    return new BudgetError({
      reason: 'misconfigured',
      code,
      message,
      url: this.#url,
      statusCode,
      isRetryable: false,
      body,
    });
  }

  /** What was not charged, or not charged as it should be. */
  uncharged(code: string, message: string, cause?: BudgetError): BudgetError {
    return new BudgetError({
      reason: cause?.reason ?? 'denied',
      code,
      message: cause === undefined ? message : `${message}: ${cause.message}`,
      url: this.#url,
      statusCode: cause?.statusCode ?? 402,
      isRetryable: false,
      scope: cause?.scope,
      body: cause?.data,
      cause,
    });
  }

  #send(
    path: string,
    body: object,
    headers: Record<string, string> | undefined,
    ms: number,
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const abort = new AbortController();
      let turns = Math.ceil(ms / TURN_MS);
      const timer = setInterval(
        () => {
          turns -= 1;
          if (turns <= 0) {
            clearInterval(timer);
            const reason = new DOMException(`no answer within ${ms} ms`, 'TimeoutError');
            abort.abort(reason);
            // By itself, because an abort while a body is read may leave the reader waiting for ever.
            reject(reason);
          }
        },
        Math.min(ms, TURN_MS),
      );
      void this.#fetch(path, body, headers, abort.signal)
        .then(resolve, reject)
        .finally(() => clearInterval(timer));
    });
  }

  async #fetch(
    path: string,
    body: object,
    headers: Record<string, string> | undefined,
    signal: AbortSignal,
  ): Promise<Answer> {
    const { fetch: fetchOf = fetch, apiKey } = this.#options;
    const key = typeof apiKey === 'function' ? await apiKey() : apiKey;
    const response = await fetchOf(this.#url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-cycles-api-key': key, ...headers },
      body: JSON.stringify(body),
      signal,
    });
    const text = await response.text();
    const seconds = Number(response.headers.get('retry-after') ?? NaN);
    return {
      status: response.status,
      retryAfterMs: seconds >= 0 ? seconds * 1000 : undefined,
      body: jsonIn(text),
    };
  }
}

/** What stands between Holdfast and this process may answer with a page. */
function jsonIn(text: string): Answer['body'] {
  try {
    return JSON.parse(text) as Answer['body'];
  } catch {
    return { message: text.slice(0, 300) };
  }
}
