/** Debt up to here is not paid back, so that short queries never pause. */
const FREE_DEBT_MS = 50;

/** Keeps work on Redis to a share of the time: what was used beyond the share is paid back by a pause before the next run. */
export class TimeShare {
  private debtMs = 0;
  private running = 0;
  private countedAt = performance.now();

  /** @param share more than 0; at 1 nothing ever pauses. */
  constructor(private readonly share: number) {}

  begin(): void {
    this.count();
    this.running += 1;
  }

  end(): void {
    this.count();
    this.running -= 1;
  }

  /** How long the next run has to wait, if nothing else runs meanwhile. */
  pauseMs(): number {
    this.count();
    return Math.max(0, this.debtMs - FREE_DEBT_MS) / this.share;
  }

  private count(): void {
    const now = performance.now();
    const elapsedMs = now - this.countedAt;
    this.countedAt = now;
    this.debtMs = Math.max(0, this.debtMs + elapsedMs * (this.running > 0 ? 1 - this.share : -this.share));
  }
}
