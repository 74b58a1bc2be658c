import { Controller, Delete, Get, Param, Patch, Post, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
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
  tenantsOf,
} from '../../http/index.js';
import { SYSTEM_OWNER } from '../../redis/index.js';
import { bodyOf, queryOf } from '../../wire/index.js';
import { BulkActionService } from './bulk-action.service.js';
import { SubscriptionLists } from './subscription-lists.js';
import {
  SubscriptionCreateDto,
  SubscriptionListQueryDto,
  SubscriptionOwnerQueryDto,
  SubscriptionUpdateDto,
  WebhookBulkActionDto,
} from './subscription.dto.js';
import { SubscriptionsService } from './subscriptions.service.js';

@Controller('v1/admin/webhooks')
export class AdminWebhooksController {
  constructor(
    private readonly subscriptions: SubscriptionsService,
    private readonly lists: SubscriptionLists,
    private readonly bulk: BulkActionService,
  ) {}

  @Post()
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'query.tenant_id' } })
  @Operation(
    'createWebhookSubscription',
    "Subscribe an endpoint to one tenant's events, or to all tenants' events",
  )
  @Answers(201, 'WebhookCreateResponse')
  @QuerySchema(SubscriptionOwnerQueryDto, { tenant_id: 'acme' })
  @BodySchema(SubscriptionCreateDto, {
    url: 'https://hooks.example.com/holdfast',
    event_types: ['reservation.expired', 'budget.threshold_crossed'],
  })
  async create(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const { tenant_id: owner = SYSTEM_OWNER } = queryOf(request, SubscriptionOwnerQueryDto);
    const created = await this.subscriptions.create(
      request.caller as Caller,
      'admin',
      owner === '' ? SYSTEM_OWNER : owner,
      bodyOf(request, SubscriptionCreateDto),
      originOf(request),
    );
    sendSecret<'WebhookCreateResponse'>(reply, 201, created);
  }

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: { filteredAt: 'query.tenant_id' } })
  @LimitedQuery()
  @Operation('listWebhookSubscriptions', 'List webhook subscriptions')
  @Answers(200, 'WebhookListResponse')
  @QuerySchema(SubscriptionListQueryDto, { tenant_id: 'acme' })
  async list(@Req() request: FastifyRequest): Promise<Answer<'WebhookListResponse'>> {
    const { rows, ...rest } = await this.lists.all(
      queryOf(request, SubscriptionListQueryDto),
      tenantsOf(request),
    );
    return { subscriptions: rows, ...rest };
  }

  @Post('bulk-action')
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'body.filter.tenant_id' } })
  @LimitedQuery()
  @Operation('bulkActionWebhooks', 'Pause, resume or delete all subscriptions that match a filter')
  @Answers(200, 'WebhookBulkActionResponse')
  @BodySchema(WebhookBulkActionDto, {
    filter: { tenant_id: 'acme' },
    action: 'PAUSE',
    idempotency_key: 'pause-acme-1',
  })
  bulkAction(@Req() request: FastifyRequest): Promise<string> {
    return this.bulk.apply(bodyOf(request, WebhookBulkActionDto), originOf(request));
  }

  @Get(':subscription_id')
  @Access({ plane: 'admin', admin: true, confinement: OF_SUBSCRIPTION })
  @Operation('getWebhookSubscription', 'Get a webhook subscription')
  @Answers(200, 'WebhookSubscription')
  get(
    @Req() request: FastifyRequest,
    @Param('subscription_id') subscriptionId: string,
  ): Promise<Answer<'WebhookSubscription'>> {
    return this.subscriptions.get(request.caller as Caller, subscriptionId);
  }

  @Patch(':subscription_id')
  @Access({ plane: 'admin', admin: true, confinement: OF_SUBSCRIPTION })
  @LimitedChange()
  @Operation('updateWebhookSubscription', 'Change, pause or resume a webhook subscription')
  @Answers(200, 'WebhookSubscription')
  @BodySchema(SubscriptionUpdateDto, { name: 'Expired holds', event_types: ['reservation.expired'] })
  update(
    @Req() request: FastifyRequest,
    @Param('subscription_id') subscriptionId: string,
  ): Promise<Answer<'WebhookSubscription'>> {
    return this.subscriptions.update(
      request.caller as Caller,
      'admin',
      subscriptionId,
      bodyOf(request, SubscriptionUpdateDto),
      originOf(request),
    );
  }

  @Delete(':subscription_id')
  @Access({ plane: 'admin', admin: true, confinement: OF_SUBSCRIPTION })
  @LimitedChange()
  @Operation('deleteWebhookSubscription', 'Delete a webhook subscription')
  @AnswersNothing()
  async remove(
    @Req() request: FastifyRequest,
    @Param('subscription_id') subscriptionId: string,
  ): Promise<void> {
    await this.subscriptions.remove(request.caller as Caller, 'admin', subscriptionId, originOf(request));
  }
}
