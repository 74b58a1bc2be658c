import type { Answer, HoldfastClient } from './client.js';
import type { Amount } from './cost.js';
import { BudgetError, costNothing } from './errors.js';
import type { Subject } from './subject.js';

export interface ReserveRequest {
  readonly subject: Subject;
  readonly action: { readonly kind: string; readonly name: string };
  readonly estimate: Amount;
  readonly ttlMs: number;
  /** What the reservation costs if nobody settles it. */
  readonly chargeOnExpiry: number;
}

/** Told what could not be charged as it should be. Must not throw. */
export type Report = (problem: BudgetError) => void;

export interface Metrics {
  readonly tokens_input: number;
  readonly tokens_output: number;
  readonly latency_ms: number;
  readonly model_version?: string;
}

/** No call runs longer. A hold whose end nobody sees is left to its expiry then. */
const LONGEST_CALL_MS = 3_600_000;
const MOST_EXTENSION_MS = 86_400_000;
const AFTER_FAILURE_MS = 1000;
/** The key lacks a permission. */
const FORBIDDEN = 403;

/** The reservation of one call, or its place while Holdfast is away. Whatever happens, it is settled once. */
export class Hold {
  readonly #client: HoldfastClient;
  readonly #request: ReserveRequest;
  readonly #report: Report;
  // A key of its own for each attempt of the SDK: each may be billed.
  readonly #key = `ai-sdk:${crypto.randomUUID()}`;
  readonly #began = performance.now();
  #id: string | undefined;
  #maxTokens: number | undefined;
  #beat: ReturnType<typeof setTimeout> | undefined;
  #isSettled = false;

  constructor(client: HoldfastClient, request: ReserveRequest, report: Report) {
    this.#client = client;
    this.#request = request;
    this.#report = report;
  }

  /** What a policy caps the output to. */
  get maxTokens(): number | undefined {
    return this.#maxTokens;
  }

  /** @throws BudgetError */
  async reserve(): Promise<void> {
    const { subject, action, estimate, ttlMs, chargeOnExpiry } = this.#request;
    const body = { idempotency_key: this.#key, subject, action, estimate, ttl_ms: ttlMs };
    const headers = {
      'x-holdfast-charge-on-expiry': String(chargeOnExpiry),
      'x-holdfast-explain': 'true',
    };
    let answer: Answer;
    try {
      answer = await this.#client.ask('reservations', body, headers);
    } catch (error) {
      if (!costNothing(error)) {
        void this.#undo(body, headers);
      }
      throw this.#client.unavailable(error);
    }
    if (answer.status !== 200 || answer.body.reservation_id === undefined) {
      if (answer.status >= 500) {
        void this.#undo(body, headers);
      }
      throw this.#client.refusal(answer);
    }
    this.#id = answer.body.reservation_id;
    this.#maxTokens = answer.body.caps?.max_tokens;
    this.#extendBefore(this.#began + ttlMs, ttlMs);
  }

  /** Gives back what a reserve may have held that nobody waits for any more. The same key gives the same reservation. */
  async #undo(body: object, headers: Record<string, string>): Promise<void> {
    try {
      const { body: late } = await this.#client.insist('reservations', body, headers);
      if (late.reservation_id !== undefined) {
        await this.#release(late.reservation_id);
      }
    } catch (error) {
      const text = `A reserve that was given up may hold ${this.#said(this.#request.estimate.amount)} until it expires`;
      this.#report(this.#client.uncharged('UNDO_FAILED', text, error as BudgetError));
    }
  }

  /** At half of what was granted, so that attempts may fail, by as long as the call has run, so that few are needed. */
  #extendBefore(expiresAt: number, grantedMs: number): void {
    this.#later(expiresAt - grantedMs / 2 - performance.now(), async () => {
      const ranMs = Math.round(performance.now() - this.#began);
      if (ranMs > LONGEST_CALL_MS) {
        return;
      }
      const byMs = Math.min(MOST_EXTENSION_MS, Math.max(this.#request.ttlMs, ranMs));
      const body = { idempotency_key: `${this.#key}:extend-${byMs}`, extend_by_ms: byMs };
      const answer = await this.#client
        .tell(`reservations/${this.#id}/extend`, body)
        .catch((error: unknown) => this.#client.unavailable(error));
      if (this.#isSettled) {
        return;
      }
      if (!(answer instanceof BudgetError) && answer.status === 200) {
        this.#extendBefore(expiresAt + byMs, byMs);
      } else if (answer instanceof BudgetError || answer.status >= 500 || answer.status === 429) {
        this.#later(AFTER_FAILURE_MS, () => Promise.resolve(this.#extendBefore(expiresAt, grantedMs)));
      } else {
        const text = `A running call cannot extend its reservation ${this.#id}, and may end after it`;
        this.#report(this.#client.uncharged('EXTEND_FAILED', text, this.#client.refusal(answer)));
      }
    });
  }

  #later(ms: number, work: () => Promise<void>): void {
    this.#beat = setTimeout(() => void work(), Math.max(0, ms));
    // Not in every runtime is a timer an object.
    (this.#beat as { unref?: () => void }).unref?.();
  }

  /** Charges the amount, also of a call that was made without a reservation. Never rejects. */
  commit(amount: number, metrics: Metrics): Promise<void> {
    return this.#settle(`${this.#said(amount)} is not charged`, () =>
      this.#id === undefined
        ? this.#debit(amount, metrics, 'unreserved')
        : this.#commit(this.#id, amount, metrics),
    );
  }

  /** For a call that cost nothing. Never rejects. */
  release(): Promise<void> {
    const id = this.#id;
    return this.#settle(`The reservation ${id} of a call that cost nothing is not released`, async () =>
      id === undefined ? undefined : this.#release(id),
    );
  }

  async #settle(otherwise: string, work: () => Promise<void>): Promise<void> {
    if (this.#isSettled) {
      return;
    }
    this.#isSettled = true;
    clearTimeout(this.#beat);
    try {
      await work();
    } catch (error) {
      const cause = BudgetError.isInstance(error) ? error : this.#client.unavailable(error);
      this.#report(this.#client.uncharged(cause.code, otherwise, cause));
    }
  }

  async #commit(id: string, amount: number, metrics: Metrics): Promise<void> {
    const { estimate, chargeOnExpiry } = this.#request;
    const commit = (charge: number, key: string): Promise<Answer> =>
      this.#client.insist(`reservations/${id}/commit`, {
        idempotency_key: `${this.#key}:${key}`,
        actual: { ...estimate, amount: charge },
        metrics,
      });
    let answer = await commit(amount, 'commit');
    if (answer.status === 409 && amount > estimate.amount && answer.body.error !== 'RESERVATION_FINALIZED') {
      // The overage policy refuses the rest with the whole. So the hold is charged alone, and the rest is a debit of its own.
      answer = await commit(estimate.amount, 'commit-estimate');
      if (answer.status === 200) {
        await this.#debit(amount - estimate.amount, metrics, 'overage');
        return;
      }
    }
    if (answer.status === 200) {
      this.#expectAll(answer, amount);
    } else if (answer.status === 410 && amount >= chargeOnExpiry) {
      // The expiry has charged what it was told.
      await this.#debit(amount - chargeOnExpiry, metrics, 'late');
    } else if (answer.status === 410) {
      await this.#refund(id, chargeOnExpiry - amount);
    } else {
      throw this.#client.refusal(answer);
    }
  }

  async #release(id: string): Promise<void> {
    const body = { idempotency_key: `${this.#key}:release` };
    const answer = await this.#client.insist(`reservations/${id}/release`, body);
    const { chargeOnExpiry } = this.#request;
    if (answer.status === 410 && chargeOnExpiry > 0) {
      await this.#refund(id, chargeOnExpiry);
    } else if (answer.status !== 200) {
      throw this.#client.refusal(answer);
    }
  }

  /** Takes back what an expiry has charged beyond what the call cost. By default, no key may. */
  async #refund(id: string, amount: number): Promise<void> {
    const { estimate } = this.#request;
    const body = {
      idempotency_key: `${this.#key}:refund`,
      amount: { ...estimate, amount },
      reason: 'the call cost less than its expiry charged',
    };
    const answer = await this.#client.insist(`reservations/${id}/refunds`, body, undefined, FORBIDDEN);
    if (answer.status !== 200) {
      const text = `${this.#said(amount)} too much was charged, because the reservation ${id} had expired, and is not refunded`;
      throw this.#client.uncharged('RESERVATION_EXPIRED', text, this.#client.refusal(answer));
    }
  }

  /** Charges without a reservation. */
  async #debit(amount: number, metrics: Metrics, why: string): Promise<void> {
    if (amount === 0) {
      return;
    }
    const { subject, action, estimate } = this.#request;
    const answer = await this.#client.insist('events', {
      idempotency_key: `${this.#key}:${why}`,
      subject,
      action,
      actual: { ...estimate, amount },
      metrics,
    });
    if (answer.status !== 200 && answer.status !== 201) {
      throw this.#client.uncharged(
        answer.body.error ?? 'UNKNOWN',
        `of which ${amount} as a debit (${why})`,
        this.#client.refusal(answer),
      );
    }
    this.#expectAll(answer, amount);
  }

  #expectAll({ body: { charged } }: Answer, amount: number): void {
    if (charged !== undefined && charged.amount < amount) {
      const text = `Only ${charged.amount} of ${this.#said(amount)} is charged: the budget had no more`;
      this.#report(this.#client.uncharged('CHARGE_CAPPED', text));
    }
  }

  #said(amount: number): string {
    return `${amount} ${this.#request.estimate.unit}`;
  }
}
