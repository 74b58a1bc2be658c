import { Controller, Param, Post, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import { Access, type Answer, Answers, OF_SUBSCRIPTION, Operation, originOf } from '../../http/index.js';
import { ProbeService } from './probe.service.js';

@Controller()
export class ProbeController {
  constructor(private readonly probes: ProbeService) {}

  @Post('v1/admin/webhooks/:subscription_id/test')
  @Access({ plane: 'admin', admin: true, confinement: OF_SUBSCRIPTION })
  @Operation('testWebhookSubscription', "Send a test event to a subscription's endpoint")
  @Answers(200, 'WebhookTestResponse')
  test(
    @Param('subscription_id') id: string,
    @Req() request: FastifyRequest,
  ): Promise<Answer<'WebhookTestResponse'>> {
    return this.answer(id, request, 'admin');
  }

  @Post('v1/webhooks/:subscription_id/test')
  @Access({ plane: 'admin', tenant: 'webhooks:write', admin: true, confinement: OF_SUBSCRIPTION })
  @Operation('testTenantWebhook', "Send a test event to the endpoint of a tenant's subscription")
  @Answers(200, 'WebhookTestResponse')
  testOwn(
    @Param('subscription_id') id: string,
    @Req() request: FastifyRequest,
  ): Promise<Answer<'WebhookTestResponse'>> {
    return this.answer(id, request, 'admin_on_behalf_of');
  }

  private answer(
    id: string,
    request: FastifyRequest,
    adminActor: 'admin' | 'admin_on_behalf_of',
  ): Promise<Answer<'WebhookTestResponse'>> {
    return this.probes.test(request.caller as Caller, id, originOf(request, adminActor), request.trace);
  }
}
