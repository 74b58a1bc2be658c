import { StoreUnavailable } from '../redis/index.js';
import type { Logger } from '../telemetry/index.js';

/** Logs work that fails each time it is tried only when that begins, when the reason changes, and when the work succeeds again. */
export class FailureStreak {
  private failures = 0;
  private beganAt = 0;
  private reason: string | undefined;

  constructor(
    private readonly logger: Logger,
    private readonly fields: Readonly<Record<string, string>>,
    private readonly messages: { readonly failed: string; readonly again: string },
  ) {}

  failed(error: unknown): void {
    if (this.failures === 0) {
      this.beganAt = performance.now();
    }
    this.failures += 1;
    // An outage changes its reasons on the way, and none of them is a defect whose stack somebody needs.
    const isOutage = error instanceof StoreUnavailable;
    const reason = isOutage ? error.name : String(error);
    if (reason !== this.reason) {
      this.reason = reason;
      const why = isOutage ? { reason: error.message } : { err: error };
      this.logger.warn({ ...this.fields, ...why }, this.messages.failed);
    }
  }

  /** Logged as the failure was, so that whoever reads of the one reads of the other. */
  succeeded(): void {
    if (this.failures > 0) {
      const lasted_ms = Math.round(performance.now() - this.beganAt);
      this.logger.warn({ ...this.fields, failures: this.failures, lasted_ms }, this.messages.again);
      this.failures = 0;
      this.reason = undefined;
    }
  }
}
