import { Injectable, type OnModuleDestroy } from '@nestjs/common';

/** What works now, and that an operator should know of. */
export interface HealthWarning {
  readonly code: string;
  /** What is wrong, and what to do. */
  readonly message: string;
}

export interface HealthReport {
  /** False turns readiness red. */
  readonly up: boolean;
  readonly warnings?: readonly HealthWarning[];
  /** Public: must not contain secrets or names of tenants. */
  readonly details?: Readonly<Record<string, unknown>>;
}

/** A part of readiness: something that it depends on, or shows only. */
export interface HealthContributor {
  readonly name: string;
  /** Must settle within a bounded time. An error counts as down. */
  check(): HealthReport | Promise<HealthReport>;
}

/** Modules register here, when they start, what readiness depends on. */
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

/** Whether this process is shutting down. Readiness is red from then on, so that no new traffic arrives. */
@Injectable()
export class ShutdownState implements OnModuleDestroy {
  private isStopping = false;
  private readonly listeners: (() => void)[] = [];

  get stopping(): boolean {
    return this.isStopping;
  }

  beginShutdown(): void {
    this.isStopping = true;
    this.listeners.splice(0).forEach((listener) => listener());
  }

  /** Calls the listener once, before the server waits for requests in flight: to end what would never end by itself. */
  onShutdown(listener: () => void): void {
    this.listeners.push(listener);
  }

  onModuleDestroy(): void {
    this.beginShutdown();
  }
}
