import { Controller, Get, Res } from '@nestjs/common';
import { ApiResponse } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { exposition, MetricsRegistry } from '../telemetry/index.js';
import { Access } from './access-rule.js';
import { Operation } from './openapi/document.js';

const EXPOSITION = {
  status: 200,
  description: 'Metrics in the Prometheus text format',
  content: { 'text/plain': { schema: { type: 'string' } } },
} as const;

/** For Prometheus, with the key of any operator, as X-Admin-API-Key or as a bearer token: label values contain tenant ids. */
@Controller()
export class MetricsController {
  constructor(private readonly metrics: MetricsRegistry) {}

  @Get('actuator/prometheus')
  @Access({ plane: 'admin', admin: true, role: 'metrics' })
  @Operation('getActuatorMetrics', 'Metrics, at the path of Spring Boot Actuator')
  @ApiResponse(EXPOSITION)
  actuatorPrometheus(@Res() reply: FastifyReply): Promise<void> {
    return this.scrape(reply);
  }

  @Get('metrics')
  @Access({ plane: 'admin', admin: true, role: 'metrics' })
  @Operation('getMetrics', 'Metrics for Prometheus')
  @ApiResponse(EXPOSITION)
  async scrape(@Res() reply: FastifyReply): Promise<void> {
    const text = await exposition(this.metrics.registry);
    void reply.header('content-type', this.metrics.registry.contentType).send(text);
  }
}
