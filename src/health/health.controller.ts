import { Controller, Get, Inject, Res } from '@nestjs/common';
import { ApiOperation, ApiResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { ReadinessCheck, type Readiness } from './readiness.js';

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
@ApiTags('Health')
@Controller()
export class HealthController {
  constructor(@Inject(ReadinessCheck) private readonly readiness: ReadinessCheck) {}

  @Get('health/live')
  @ApiOperation({ operationId: 'getLiveness', summary: 'Whether the process answers' })
  @ApiResponse(LIVE)
  live(@Res() reply: FastifyReply): void {
    answer(reply, 200, { status: 'ok' });
  }

  @Get('health/ready')
  @ApiOperation({ operationId: 'getReadiness', summary: 'Whether traffic may come' })
  @ApiResponse(READY)
  @ApiResponse(NOT_READY)
  async ready(@Res() reply: FastifyReply): Promise<void> {
    const { ready, details } = await this.readiness.check();
    answer(reply, ready ? 200 : 503, { status: ready ? 'ok' : 'error', details });
  }

  @Get('actuator/health/liveness')
  @ApiOperation({ operationId: 'getActuatorLiveness', summary: "Liveness in Spring's form" })
  @ApiResponse(LIVE)
  actuatorLive(@Res() reply: FastifyReply): void {
    answer(reply, 200, { status: 'UP' });
  }

  @Get('actuator/health')
  @ApiOperation({ operationId: 'getActuatorHealth', summary: "Readiness in Spring's form" })
  @ApiResponse(READY)
  @ApiResponse(NOT_READY)
  actuatorHealth(@Res() reply: FastifyReply): Promise<void> {
    return this.actuatorReady(reply);
  }

  @Get('actuator/health/readiness')
  @ApiOperation({ operationId: 'getActuatorReadiness', summary: "Readiness in Spring's form" })
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
