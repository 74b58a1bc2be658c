import { Controller, Delete, Get, Param, Patch, Post, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller, TenantCaller } from '../../auth/index.js';
import {
  Access,
  type Answer,
  Answers,
  AnswersNothing,
  BodySchema,
  LimitedChange,
  LimitedQuery,
  OF_SUBSCRIPTION,
  Operation,
  originOf,
  QuerySchema,
  sendSecret,
} from '../../http/index.js';
import { bodyOf, queryOf } from '../../wire/index.js';
import { SubscriptionLists } from './subscription-lists.js';
import {
  SubscriptionCreateDto,
  SubscriptionUpdateDto,
  TenantSubscriptionListQueryDto,
} from './subscription.dto.js';
import { SubscriptionsService } from './subscriptions.service.js';

/** The tenants' operations on their own subscriptions. Operators may use them too, except for create, which they have separately. */
@Controller('v1/webhooks')
export class TenantWebhooksController {
  constructor(
    private readonly subscriptions: SubscriptionsService,
    private readonly lists: SubscriptionLists,
  ) {}

  @Post()
  @Access({ plane: 'admin', tenant: 'webhooks:write' })
  @Operation('createTenantWebhook', "Subscribe an endpoint to the tenant's events")
  @Answers(201, 'WebhookCreateResponse')
  @BodySchema(SubscriptionCreateDto, {
    url: 'https://hooks.example.com/holdfast',
    event_types: ['reservation.expired', 'budget.threshold_crossed'],
  })
  async create(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const caller = request.caller as TenantCaller;
    const created = await this.subscriptions.create(
      caller,
      'tenant',
      caller.tenantId,
      bodyOf(request, SubscriptionCreateDto),
      originOf(request, 'admin_on_behalf_of'),
    );
    sendSecret<'WebhookCreateResponse'>(reply, 201, created);
  }

  @Get()
  @Access({ plane: 'admin', tenant: 'webhooks:read', admin: true, confinement: { tenantAt: 'query.tenant' } })
  @LimitedQuery()
  @Operation('listTenantWebhooks', "List a tenant's webhook subscriptions")
  @Answers(200, 'WebhookListResponse')
  @QuerySchema(TenantSubscriptionListQueryDto, { tenant: 'acme' })
  async list(@Req() request: FastifyRequest): Promise<Answer<'WebhookListResponse'>> {
    const { rows, ...rest } = await this.lists.ofTenant(
      request.caller as Caller,
      queryOf(request, TenantSubscriptionListQueryDto),
    );
    return { subscriptions: rows, ...rest };
  }

  @Get(':subscription_id')
  @Access({ plane: 'admin', tenant: 'webhooks:read', admin: true, confinement: OF_SUBSCRIPTION })
  @Operation('getTenantWebhook', "Get a tenant's webhook subscription")
  @Answers(200, 'WebhookSubscription')
  get(
    @Req() request: FastifyRequest,
    @Param('subscription_id') subscriptionId: string,
  ): Promise<Answer<'WebhookSubscription'>> {
    return this.subscriptions.get(request.caller as Caller, subscriptionId);
  }

  @Patch(':subscription_id')
  @Access({ plane: 'admin', tenant: 'webhooks:write', admin: true, confinement: OF_SUBSCRIPTION })
  @LimitedChange()
  @Operation('updateTenantWebhook', "Change, pause or resume a tenant's webhook subscription")
  @Answers(200, 'WebhookSubscription')
  @BodySchema(SubscriptionUpdateDto, { name: 'Expired holds', event_types: ['reservation.expired'] })
  update(
    @Req() request: FastifyRequest,
    @Param('subscription_id') subscriptionId: string,
  ): Promise<Answer<'WebhookSubscription'>> {
    return this.subscriptions.update(
      request.caller as Caller,
      'tenant',
      subscriptionId,
      bodyOf(request, SubscriptionUpdateDto),
      originOf(request, 'admin_on_behalf_of'),
    );
  }

  @Delete(':subscription_id')
  @Access({ plane: 'admin', tenant: 'webhooks:write', admin: true, confinement: OF_SUBSCRIPTION })
  @LimitedChange()
  @Operation('deleteTenantWebhook', "Delete a tenant's webhook subscription")
  @AnswersNothing()
  async remove(
    @Req() request: FastifyRequest,
    @Param('subscription_id') subscriptionId: string,
  ): Promise<void> {
    await this.subscriptions.remove(
      request.caller as Caller,
      'tenant',
      subscriptionId,
      originOf(request, 'admin_on_behalf_of'),
    );
  }
}
