import { Injectable, type OnModuleDestroy } from '@nestjs/common';

export interface HealthReport {
  /** False turns readiness red. */
  readonly up: boolean;
  /** Shown to whoever asks, without authentication: no secrets, no tenant names. */
  readonly details?: Readonly<Record<string, unknown>>;
}

/** Something that readiness depends on, or wants to show there. */
export interface HealthContributor {
  readonly name: string;
  /** Must answer within a bounded time; a throw counts as down. */
  check(): HealthReport | Promise<HealthReport>;
}

/** Where modules add themselves to readiness when they start. */
@Injectable()
export class HealthContributors {
  private readonly list = new Map<string, HealthContributor>();

  register(contributor: HealthContributor): void {
    if (this.list.has(contributor.name)) {
      throw new Error(`two health contributors are named ${contributor.name}`);
    }
    this.list.set(contributor.name, contributor);
  }

  all(): HealthContributor[] {
    return [...this.list.values()];
  }
}

/** Whether this process is on its way out; readiness is red from then on, so that no new traffic is sent here. */
@Injectable()
export class ShutdownState implements OnModuleDestroy {
  private begun = false;

  get stopping(): boolean {
    return this.begun;
  }

  begin(): void {
    this.begun = true;
  }

  onModuleDestroy(): void {
    this.begun = true;
  }
}
