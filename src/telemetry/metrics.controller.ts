import { Controller, Get, Inject, Req, Res } from '@nestjs/common';
import { ApiOperation, ApiResponse, ApiSecurity } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { CONFIG, ExpectedSecret, type HoldfastConfig } from '../config/index.js';
import { headerText, Refusal } from '../ledger/index.js';
import { exposition } from './group-metrics.js';
import { MetricsRegistry } from './metrics-registry.js';

const EXPOSITION = {
  status: 200,
  description: 'Metrics in the Prometheus text format',
  content: { 'text/plain': { schema: { type: 'string' } } },
} as const;

/** For Prometheus. Requires the admin key, because label values contain tenant ids. */
@ApiSecurity('AdminKeyAuth')
@Controller()
export class MetricsController {
  private readonly adminKey: ExpectedSecret | undefined;

  constructor(
    @Inject(CONFIG) config: HoldfastConfig,
    @Inject(MetricsRegistry) private readonly metrics: MetricsRegistry,
  ) {
    this.adminKey = config.adminApiKey === undefined ? undefined : new ExpectedSecret(config.adminApiKey);
  }

  @Get('actuator/prometheus')
  @ApiOperation({
    operationId: 'getActuatorMetrics',
    summary: 'Metrics, at the path of Spring Boot Actuator',
  })
  @ApiResponse(EXPOSITION)
  actuatorPrometheus(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    return this.scrape(request, reply);
  }

  @Get('metrics')
  @ApiOperation({ operationId: 'getMetrics', summary: 'Metrics for Prometheus' })
  @ApiResponse(EXPOSITION)
  async scrape(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const key = presentedKey(request);
    if (key === undefined || this.adminKey?.matches(key) !== true) {
      throw new Refusal(
        'UNAUTHORIZED',
        'metrics need the admin key, as X-Admin-API-Key or as a bearer token',
      );
    }
    const text = await exposition(this.metrics.registry);
    void reply.header('content-type', this.metrics.registry.contentType).send(text);
  }
}

function presentedKey(request: FastifyRequest): string | undefined {
  const header = request.headers['x-admin-api-key'];
  if (typeof header === 'string' && header !== '') {
    return headerText(header);
  }
  return /^Bearer (\S+)$/i.exec(headerText(request.headers.authorization ?? ''))?.[1];
}
