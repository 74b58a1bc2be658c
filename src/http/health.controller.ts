import {
  Controller,
  Get,
  Inject,
  Injectable,
  type OnModuleInit,
  Res,
  ServiceUnavailableException,
} from '@nestjs/common';
import { ApiResponse } from '@nestjs/swagger';
import { type HealthCheckResult, HealthCheckService, type HealthIndicatorResult } from '@nestjs/terminus';
import type { FastifyReply } from 'fastify';
import { RedisService } from '../redis/index.js';
import {
  type HealthContributor,
  HealthContributors,
  type HealthReport,
  type HealthWarning,
  MetricsRegistry,
  ShutdownState,
} from '../telemetry/index.js';
import { HTTP_METRICS } from './http.metrics.js';
import { Operation } from './openapi/document.js';

/** Probes are public: however many come, the store is asked at most this often. */
const REUSE_MS = 250;

export interface Readiness {
  readonly ready: boolean;
  readonly details: Readonly<Record<string, HealthIndicatorResult[string]>>;
}

const warningsOf = ({ details }: Readiness): HealthWarning[] =>
  Object.values(details).flatMap((detail) => (detail['warnings'] as HealthWarning[] | undefined) ?? []);

/** Asks every contributor through terminus. */
@Injectable()
export class ReadinessCheck {
  private running: Promise<Readiness> | undefined;
  private startedAt = 0;

  constructor(
    @Inject(HealthCheckService) private readonly health: HealthCheckService,
    @Inject(HealthContributors) private readonly contributors: HealthContributors,
    @Inject(ShutdownState) private readonly shutdown: ShutdownState,
    @Inject(MetricsRegistry) metrics: MetricsRegistry,
  ) {
    // Each scrape checks the store, including its memory.
    const { ready, redisUp, warnings } = metrics.of(HTTP_METRICS);
    warnings.readFrom(async () => warningsOf(await this.check()).map(({ code }) => [1, { code }] as const));
    ready.readFrom(async () => ((await this.check()).ready ? 1 : 0));
    redisUp.readFrom(async () => ((await this.check()).details['redis']?.status === 'up' ? 1 : 0));
  }

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
    const { up, warnings = [], details } = await contributor.check();
    return {
      [contributor.name]: {
        ...details,
        ...(warnings.length > 0 && { warnings }),
        status: up ? 'up' : 'down',
      },
    };
  } catch (error) {
    return {
      [contributor.name]: { status: 'down', message: error instanceof Error ? error.message : 'failed' },
    };
  }
}

const STATUS = { type: 'string', enum: ['ok', 'error', 'UP', 'DOWN'] } as const;
const LIVE = {
  status: 200,
  description: 'The process answers',
  schema: { type: 'object', required: ['status'], properties: { status: STATUS } },
} as const;
const DETAILS = {
  type: 'object',
  required: ['status'],
  properties: { status: STATUS, details: { type: 'object' }, components: { type: 'object' } },
} as const;
const READY = { status: 200, description: 'Ready for traffic', schema: DETAILS } as const;
const NOT_READY = { status: 503, description: 'Not ready; the details say why', schema: DETAILS } as const;

/**
 * Public probes, also on the paths that the reference's deployments ask; Fastify answers HEAD like GET. Liveness says only that
 * the process answers: restarting it heals no outage of the store.
 */
@Controller()
export class HealthController {
  constructor(@Inject(ReadinessCheck) private readonly readiness: ReadinessCheck) {}

  @Get('health/live')
  @Operation('getLiveness', 'Whether the process answers')
  @ApiResponse(LIVE)
  live(@Res() reply: FastifyReply): void {
    answer(reply, 200, { status: 'ok' });
  }

  @Get('health/ready')
  @Operation('getReadiness', 'Whether traffic may come')
  @ApiResponse(READY)
  @ApiResponse(NOT_READY)
  async ready(@Res() reply: FastifyReply): Promise<void> {
    const { ready, details } = await this.readiness.check();
    answer(reply, ready ? 200 : 503, { status: ready ? 'ok' : 'error', details });
  }

  @Get('actuator/health/liveness')
  @Operation('getActuatorLiveness', "Liveness in Spring's form")
  @ApiResponse(LIVE)
  actuatorLive(@Res() reply: FastifyReply): void {
    answer(reply, 200, { status: 'UP' });
  }

  @Get('actuator/health')
  @Operation('getActuatorHealth', "Readiness in Spring's form")
  @ApiResponse(READY)
  @ApiResponse(NOT_READY)
  actuatorHealth(@Res() reply: FastifyReply): Promise<void> {
    return this.actuatorReady(reply);
  }

  @Get('actuator/health/readiness')
  @Operation('getActuatorReadiness', "Readiness in Spring's form")
  @ApiResponse(READY)
  @ApiResponse(NOT_READY)
  async actuatorReady(@Res() reply: FastifyReply): Promise<void> {
    const readiness = await this.readiness.check();
    answer(reply, readiness.ready ? 200 : 503, {
      status: readiness.ready ? 'UP' : 'DOWN',
      components: components(readiness),
    });
  }
}

function answer(reply: FastifyReply, status: number, body: object): void {
  void reply
    .code(status)
    .header('cache-control', 'no-store')
    .header('content-type', 'application/json; charset=utf-8')
    .send(JSON.stringify(body));
}

/** Spring's form of the same details. */
function components({ details }: Readiness): Record<string, object> {
  return Object.fromEntries(
    Object.entries(details).map(([name, { status, ...rest }]) => [
      name,
      { status: status === 'up' ? 'UP' : 'DOWN', details: rest },
    ]),
  );
}

/** The store in readiness: it answers, it does not evict, and it is not full. */
@Injectable()
export class StoreHealth implements OnModuleInit {
  constructor(
    @Inject(HealthContributors) private readonly contributors: HealthContributors,
    @Inject(RedisService) private readonly redis: RedisService,
  ) {}

  onModuleInit(): void {
    this.contributors.register({ name: 'redis', check: () => this.check() });
  }

  private async check(): Promise<HealthReport> {
    const { ready, problems, warnings, ...details } = await this.redis.status();
    return { up: ready, warnings, details: problems.length > 0 ? { ...details, problems } : details };
  }
}
