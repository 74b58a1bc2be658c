import { SchedulerRegistry } from '@nestjs/schedule';

/** Instances start together; spread out, they find each other's work done. */
const JITTER_SHARE = 0.1;

/** Work that is done again and again: never twice at once, and ended before `stop` returns. */
export class RepeatingWork {
  private running: Promise<void> = Promise.resolve();
  private isStopped = false;

  /** @param run must not reject, and should end soon once `stopped` */
  constructor(
    private readonly scheduler: SchedulerRegistry,
    private readonly name: string,
    private readonly intervalMs: number,
    private readonly run: () => Promise<void>,
  ) {}

  get stopped(): boolean {
    return this.isStopped;
  }

  start(): void {
    this.schedule();
  }

  async stop(): Promise<void> {
    this.isStopped = true;
    if (this.scheduler.doesExist('timeout', this.name)) {
      this.scheduler.deleteTimeout(this.name);
    }
    await this.running;
  }

  private schedule(): void {
    if (this.isStopped) {
      return;
    }
    const timeout = setTimeout(
      () => {
        this.scheduler.deleteTimeout(this.name);
        this.running = this.run().finally(() => {
          this.schedule();
        });
      },
      this.intervalMs * (1 + Math.random() * JITTER_SHARE),
    );
    this.scheduler.addTimeout(this.name, timeout);
  }
}
