import { Controller, Get, Inject, Res } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { ReadinessCheck, type Readiness } from './readiness.js';

/**
 * Public probes, also on the paths that the reference's deployments ask; Fastify answers HEAD like GET. Liveness says only that
 * the process answers: restarting it heals no outage of the store.
 */
@Controller()
export class HealthController {
  constructor(@Inject(ReadinessCheck) private readonly readiness: ReadinessCheck) {}

  @Get('health/live')
  live(@Res() reply: FastifyReply): void {
    answer(reply, 200, { status: 'ok' });
  }

  @Get('health/ready')
  async ready(@Res() reply: FastifyReply): Promise<void> {
    const { ready, details } = await this.readiness.check();
    answer(reply, ready ? 200 : 503, { status: ready ? 'ok' : 'error', details });
  }

  @Get('actuator/health/liveness')
  actuatorLive(@Res() reply: FastifyReply): void {
    answer(reply, 200, { status: 'UP' });
  }

  @Get(['actuator/health', 'actuator/health/readiness'])
  async actuatorReady(@Res() reply: FastifyReply): Promise<void> {
    const readiness = await this.readiness.check();
    answer(reply, readiness.ready ? 200 : 503, { status: readiness.ready ? 'UP' : 'DOWN', components: components(readiness) });
  }
}

function answer(reply: FastifyReply, status: number, body: object): void {
  void reply.code(status).header('cache-control', 'no-store').header('content-type', 'application/json; charset=utf-8').send(JSON.stringify(body));
}

/** Spring's form of the same details. */
function components({ details }: Readiness): Record<string, object> {
  return Object.fromEntries(
    Object.entries(details).map(([name, { status, ...rest }]) => [name, { status: status === 'up' ? 'UP' : 'DOWN', details: rest }]),
  );
}
