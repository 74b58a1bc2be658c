import type { Dispatcher } from 'undici';
import type { RedisClock } from '../../redis/index.js';
import { LOOKUPS_BUSY } from '../target-policy/host-lookups.js';
import { TARGET_BLOCKED } from '../target-policy/target-policy.js';

/** The longest pause that an endpoint can ask for, the same as the largest `max_delay_ms` of a retry policy. */
export const RETRY_AFTER_MAX_MS = 3_600_000;

export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

const SECONDS = /^\d+$/;
/** IMF-fixdate of HTTP. The two obsolete formats are not supported. */
const HTTP_DATE =
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/**
 * The delay that an endpoint asks for in `Retry-After` (RFC 9110, 10.2.3), in ms: seconds, or a date, which is compared with the
 * response's `Date` so that the clocks need not agree, or else with `nowMs`. From 0 to an hour, however much it asks for; undefined if
 * the header is missing or malformed.
 */
export function retryAfterMs(headers: AnswerHeaders, nowMs: number): number | undefined {
  const text = textOf(headers['retry-after']);
  const delayMs = SECONDS.test(text)
    ? Number(text) * 1000
    : dateMs(text) - (dateMs(textOf(headers['date'])) || nowMs);
  return Number.isNaN(delayMs) ? undefined : Math.min(Math.max(delayMs, 0), RETRY_AFTER_MAX_MS);
}

function textOf(header: string | string[] | undefined): string {
  return (Array.isArray(header) ? header[0] : header)?.trim() ?? '';
}

/** NaN when it is not a date. */
function dateMs(text: string): number {
  return HTTP_DATE.test(text) ? Date.parse(text) : NaN;
}

/** The body of a response decides nothing. It is read up to this size, so that the connection can be reused. */
export const ANSWER_MAX_BYTES = 64 * 1024;
/** What operators can read of the body of a refusal. Nobody else can: whoever chooses a URL must not learn what it answers to this service. */
const TEXT_MAX_BYTES = 2048;
/** How long to wait for the end of the body once the status is known. */
const ANSWER_END_MS = 1000;
const ERROR_MAX_LENGTH = 512;

/** `lookups_busy` says nothing about the endpoint, because nothing was sent. */
export type FailureReason =
  'http_3xx' | 'http_4xx' | 'http_5xx' | 'transport_error' | 'target_blocked' | 'lookups_busy';

export interface AttemptOutcome {
  /** A status of 200 to 299. */
  readonly ok: boolean;
  readonly status?: number;
  /** Until the status arrived or the attempt failed. */
  readonly durationMs: number;
  /** Why it failed. Never contains any of the response's body. */
  readonly error?: string;
  readonly reason?: FailureReason;
  /** How the body of a refusal begins. */
  readonly text?: string;
  /** The delay that the endpoint asked for; at most an hour. */
  readonly retryAfterMs?: number;
}

/**
 * One POST in flight. undici calls the `on...` methods. `settle` is called exactly once, at the latest at the time limit, whatever the
 * connection does. undici alone cannot guarantee that, because it can only abort a request that is connected.
 */
export class Attempt implements Dispatcher.DispatchHandler {
  private readonly startedAt = performance.now();
  private timer: NodeJS.Timeout;
  private controller: Dispatcher.DispatchController | undefined;
  private answer: AttemptOutcome | undefined;
  private bytes = 0;
  private readonly begins: Buffer[] = [];
  private over = false;

  constructor(
    private readonly timeoutMs: number,
    private readonly settle: (outcome: AttemptOutcome) => void,
    private readonly clock: Pick<RedisClock, 'nowMs'>,
  ) {
    this.timer = setTimeout(() => this.cutOff(), timeoutMs);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller;
    if (this.over) {
      // Connected only after the time limit: send nothing.
      controller.abort(new Error('the attempt has timed out'));
    }
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void {
    if (status < 200 || this.over) {
      return;
    }
    const durationMs = this.elapsedMs();
    this.answer =
      status < 300
        ? { ok: true, status, durationMs }
        : refusedBy(status, durationMs, retryAfterMs(headers, this.clock.nowMs()));
    clearTimeout(this.timer);
    this.timer = setTimeout(
      () => this.cutOff(),
      Math.min(ANSWER_END_MS, Math.max(this.timeoutMs - durationMs, 0)),
    );
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.answer?.ok === false && this.bytes < TEXT_MAX_BYTES) {
      // A copy, because the chunk may be a part of a large buffer.
      this.begins.push(Buffer.from(chunk.subarray(0, TEXT_MAX_BYTES - this.bytes)));
    }
    this.bytes += chunk.length;
    if (this.bytes > ANSWER_MAX_BYTES) {
      this.cutOff();
    }
  }

  onResponseEnd(): void {
    this.finish(this.answer ?? this.failure('the endpoint gave no answer'));
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    this.finish(this.answer ?? this.failure(messageOf(error), reasonOf(error)));
  }

  /** Ends the attempt with what is known, and drops the connection. */
  private cutOff(): void {
    this.finish(this.answer ?? this.failure(`no answer within ${this.timeoutMs} ms`));
    this.controller?.abort(new Error('the attempt has ended'));
  }

  private finish(outcome: AttemptOutcome): void {
    if (this.over) {
      return;
    }
    this.over = true;
    clearTimeout(this.timer);
    // A character that is cut in two becomes a replacement character.
    this.settle(
      this.begins.length === 0 ? outcome : { ...outcome, text: Buffer.concat(this.begins).toString() },
    );
  }

  private failure(error: string, reason: FailureReason = 'transport_error'): AttemptOutcome {
    return { ok: false, durationMs: this.elapsedMs(), error: error.slice(0, ERROR_MAX_LENGTH), reason };
  }

  private elapsedMs(): number {
    return Math.round(performance.now() - this.startedAt);
  }
}

function refusedBy(status: number, durationMs: number, pauseMs: number | undefined): AttemptOutcome {
  const reason = status < 400 ? 'http_3xx' : status < 500 ? 'http_4xx' : 'http_5xx';
  const error =
    status < 400
      ? `the endpoint answered ${status}; redirects are not followed`
      : `the endpoint answered ${status}`;
  return {
    ok: false,
    status,
    durationMs,
    error,
    reason,
    ...(pauseMs === undefined ? {} : { retryAfterMs: pauseMs }),
  };
}

/** When several addresses fail, Node throws one AggregateError without a message. */
function causesOf(error: Error): readonly Error[] {
  return error instanceof AggregateError ? (error.errors as readonly Error[]) : [error];
}

function reasonOf(error: Error): FailureReason {
  const codes = causesOf(error).map((cause) => (cause as NodeJS.ErrnoException).code);
  return codes.includes(TARGET_BLOCKED)
    ? 'target_blocked'
    : codes.includes(LOOKUPS_BUSY)
      ? 'lookups_busy'
      : 'transport_error';
}

function messageOf(error: Error): string {
  return causesOf(error)
    .map(({ message }) => message)
    .join('; ');
}
