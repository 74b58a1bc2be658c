import { Controller, Get, Param, Put, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import {
  Access,
  type Answer,
  Answers,
  BodySchema,
  LimitedChange,
  OF_SUBSCRIPTION,
  Operation,
  originOf,
} from '../../http/index.js';
import { bodyOf } from '../../wire/index.js';
import { SubscriptionOptionsDto } from './subscription-options.dto.js';
import { SubscriptionOptionsService } from './subscription-options.service.js';

@Controller('ops/webhooks/:subscription_id/options')
export class SubscriptionOptionsController {
  constructor(private readonly options: SubscriptionOptionsService) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: OF_SUBSCRIPTION })
  @Operation('getWebhookOptions', 'Get what a subscription has beyond the protocol')
  @Answers(200, 'WebhookOptions')
  read(
    @Req() request: FastifyRequest,
    @Param('subscription_id') subscriptionId: string,
  ): Promise<Answer<'WebhookOptions'>> {
    return this.options.read(request.caller as Caller, subscriptionId);
  }

  @Put()
  @Access({ plane: 'admin', admin: true, confinement: OF_SUBSCRIPTION })
  @LimitedChange()
  @Operation(
    'setWebhookOptions',
    'Filter by payload, send events in groups, watch amounts, or let 410 end a subscription',
  )
  @Answers(200, 'WebhookOptions')
  @BodySchema(SubscriptionOptionsDto, {
    end_on_gone: true,
    events_per_request: 50,
    thresholds_once_a_period: false,
    payload_filter: { unit: 'TOKENS' },
    used_amounts: [{ unit: 'TOKENS', amount: 50_000 }],
  })
  replace(
    @Req() request: FastifyRequest,
    @Param('subscription_id') subscriptionId: string,
  ): Promise<Answer<'WebhookOptions'>> {
    return this.options.replace(
      request.caller as Caller,
      subscriptionId,
      bodyOf(request, SubscriptionOptionsDto),
      originOf(request),
    );
  }
}
