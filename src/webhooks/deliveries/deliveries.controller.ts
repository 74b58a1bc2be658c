import { Controller, Get, Param, Post, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import { OF_EVENT } from '../../events/index.js';
import {
  Access,
  type Answer,
  Answers,
  LimitedQuery,
  OF_SUBSCRIPTION,
  Operation,
  QuerySchema,
} from '../../http/index.js';
import { queryOf } from '../../wire/index.js';
import { OF_DELIVERY } from './delivery-owner.js';
import { DeliveriesService, DeliveryListQueryDto } from './deliveries.service.js';
import { DeliveryDetailsService } from './delivery-details.service.js';
import { EventDeliveriesService } from './event-deliveries.service.js';

@Controller()
export class DeliveriesController {
  constructor(
    private readonly deliveries: DeliveriesService,
    private readonly details: DeliveryDetailsService,
    private readonly ofEvents: EventDeliveriesService,
  ) {}

  @Get('v1/admin/webhooks/:subscription_id/deliveries')
  @Access({ plane: 'admin', admin: true, confinement: OF_SUBSCRIPTION })
  @LimitedQuery()
  @Operation('listWebhookDeliveries', 'List the deliveries of a subscription')
  @QuerySchema(DeliveryListQueryDto)
  @Answers(200, 'WebhookDeliveryListResponse')
  list(
    @Param('subscription_id') id: string,
    @Req() request: FastifyRequest,
  ): Promise<Answer<'WebhookDeliveryListResponse'>> {
    return this.answer(id, request);
  }

  @Get('v1/webhooks/:subscription_id/deliveries')
  @Access({ plane: 'admin', tenant: 'webhooks:read', admin: true, confinement: OF_SUBSCRIPTION })
  @LimitedQuery()
  @Operation('listTenantWebhookDeliveries', "List the deliveries of a tenant's subscription")
  @QuerySchema(DeliveryListQueryDto)
  @Answers(200, 'WebhookDeliveryListResponse')
  listOwn(
    @Param('subscription_id') id: string,
    @Req() request: FastifyRequest,
  ): Promise<Answer<'WebhookDeliveryListResponse'>> {
    return this.answer(id, request);
  }

  @Get('ops/webhook-deliveries/:delivery_id')
  @Access({ plane: 'admin', admin: true, confinement: OF_DELIVERY })
  @LimitedQuery()
  @Operation('getWebhookDelivery', 'Get a delivery with its request and the answer to each attempt')
  @Answers(200, 'WebhookDeliveryDetails')
  get(
    @Param('delivery_id') deliveryId: string,
    @Req() request: FastifyRequest,
  ): Promise<Answer<'WebhookDeliveryDetails'>> {
    return this.details.get(request.caller as Caller, deliveryId);
  }

  @Get('ops/events/:event_id/deliveries')
  @Access({ plane: 'admin', admin: true, confinement: OF_EVENT })
  @LimitedQuery()
  @Operation(
    'listEventDeliveries',
    'List the deliveries of an event to the subscriptions of its tenant and of operators',
  )
  @Answers(200, 'EventDeliveryList')
  ofEvent(@Param('event_id') eventId: string): Promise<Answer<'EventDeliveryList'>> {
    return this.ofEvents.list(eventId);
  }

  @Post('ops/webhook-deliveries/:delivery_id/resend')
  @Access({ plane: 'admin', admin: true, confinement: OF_DELIVERY })
  @Operation('resendWebhookDelivery', 'Send the event of a delivery to its subscription again')
  @Answers(202, 'WebhookResendResponse', 'Queued')
  resend(
    @Param('delivery_id') deliveryId: string,
    @Req() request: FastifyRequest,
  ): Promise<Answer<'WebhookResendResponse'>> {
    return this.details.resend(request.caller as Caller, deliveryId);
  }

  private async answer(id: string, request: FastifyRequest): Promise<Answer<'WebhookDeliveryListResponse'>> {
    const { rows, ...rest } = await this.deliveries.list(
      request.caller as Caller,
      id,
      queryOf(request, DeliveryListQueryDto),
    );
    return { deliveries: rows, ...rest };
  }
}
