import { Inject, Injectable, ServiceUnavailableException } from '@nestjs/common';
import { HealthCheckService, type HealthCheckResult, type HealthIndicatorResult } from '@nestjs/terminus';
import { HealthContributors, type HealthContributor } from './health-contributors.js';
import { ShutdownState } from './shutdown-state.js';

/** Probes are public: however many come, the store is asked at most this often. */
const REUSE_MS = 250;

export interface Readiness {
  readonly ready: boolean;
  readonly details: Readonly<Record<string, HealthIndicatorResult[string]>>;
}

/** Asks every contributor through terminus. */
@Injectable()
export class ReadinessCheck {
  private running: Promise<Readiness> | undefined;
  private startedAt = 0;

  constructor(
    @Inject(HealthCheckService) private readonly health: HealthCheckService,
    @Inject(HealthContributors) private readonly contributors: HealthContributors,
    @Inject(ShutdownState) private readonly shutdown: ShutdownState,
  ) {}

  async check(): Promise<Readiness> {
    if (this.shutdown.stopping) {
      return {
        ready: false,
        details: { shutdown: { status: 'down', message: 'the process is shutting down' } },
      };
    }
    const now = performance.now();
    if (this.running === undefined || now - this.startedAt > REUSE_MS) {
      this.startedAt = now;
      this.running = this.ask();
    }
    return this.running;
  }

  private async ask(): Promise<Readiness> {
    const indicators = this.contributors.all().map((contributor) => () => indicate(contributor));
    const result = await this.health.check(indicators).catch((error: unknown) => {
      if (error instanceof ServiceUnavailableException) {
        return error.getResponse() as HealthCheckResult;
      }
      throw error;
    });
    return { ready: result.status === 'ok', details: result.details };
  }
}

async function indicate(contributor: HealthContributor): Promise<HealthIndicatorResult> {
  try {
    const { up, details = {} } = await contributor.check();
    return { [contributor.name]: { ...details, status: up ? 'up' : 'down' } };
  } catch (error) {
    return {
      [contributor.name]: { status: 'down', message: error instanceof Error ? error.message : 'failed' },
    };
  }
}
