import { Controller, Injectable, Module, Param, Post, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import { Access, Answers, originOf, sendJson } from '../../http/index.js';
import { RedisService } from '../../redis/index.js';
import { MetricsModule } from '../../telemetry/index.js';
import { type Origin, type RequestTrace, stringifyJson } from '../../wire/index.js';
import { SecretsModule } from '../signing/secret-box.js';
import { SubscriptionAccess, SubscriptionAccessModule } from '../subscriptions/subscription-access.js';
import { TransportModule } from '../transport/webhook-transport.js';
import { probeEvent, Prober, type ProbeResult } from './prober.js';

/** POST .../test: sends a test event to a subscription's endpoint, whatever the subscription's status. */
@Injectable()
export class ProbeService {
  constructor(
    private readonly redis: RedisService,
    private readonly subscriptions: SubscriptionAccess,
    private readonly prober: Prober,
  ) {}

  /** @throws Refusal WEBHOOK_NOT_FOUND (also for another tenant's), INSUFFICIENT_PERMISSIONS, TENANT_CLOSED; StoreUnavailable */
  async test(
    caller: Caller,
    subscriptionId: string,
    origin: Origin,
    { traceFlags }: RequestTrace,
  ): Promise<ProbeResult> {
    const target = await this.subscriptions.find(caller, subscriptionId, { forChange: true });
    return this.prober.send(
      target,
      probeEvent(target.owner, subscriptionId, origin, this.redis.partitions),
      traceFlags,
    );
  }
}

@Controller()
export class ProbeController {
  constructor(private readonly probes: ProbeService) {}

  @Post('v1/admin/webhooks/:subscription_id/test')
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({
    operationId: 'testWebhookSubscription',
    summary: "Send a test event to a subscription's endpoint",
  })
  @Answers(200, 'WebhookTestResponse')
  test(
    @Param('subscription_id') id: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    return this.answer(id, request, 'admin', reply);
  }

  @Post('v1/webhooks/:subscription_id/test')
  @Access({ plane: 'admin', tenant: 'webhooks:write', admin: true })
  @ApiOperation({
    operationId: 'testTenantWebhook',
    summary: "Send a test event to the endpoint of a tenant's subscription",
  })
  @Answers(200, 'WebhookTestResponse')
  testOwn(
    @Param('subscription_id') id: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    return this.answer(id, request, 'admin_on_behalf_of', reply);
  }

  private async answer(
    id: string,
    request: FastifyRequest,
    adminActor: 'admin' | 'admin_on_behalf_of',
    reply: FastifyReply,
  ): Promise<void> {
    const result = await this.probes.test(
      request.caller as Caller,
      id,
      originOf(request, adminActor),
      request.trace,
    );
    sendJson(reply, 200, stringifyJson(result));
  }
}

@Module({
  imports: [MetricsModule, SecretsModule, SubscriptionAccessModule, TransportModule],
  controllers: [ProbeController],
  providers: [ProbeService, Prober],
})
export class ProbeModule {}
