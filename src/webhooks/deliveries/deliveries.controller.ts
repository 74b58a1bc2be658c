import { Controller, Get, Injectable, Module, Param, Query, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import { IsIn } from 'class-validator';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import { Access, Answers, LimitedQuery, QuerySchema, sendJson } from '../../http/index.js';
import { fingerprintOf } from '../../ledger/index.js';
import { partitionOfTenant, RedisService, SYSTEM_OWNER } from '../../redis/index.js';
import { MetricsModule } from '../../telemetry/index.js';
import {
  compileQuery,
  decodeCursor,
  DEFAULT_LIMIT,
  encodeCursor,
  instantMs,
  MAX_LIMIT,
  Optional,
  type Page,
  stringifyJson,
  WindowQueryDto,
} from '../../wire/index.js';
import { SubscriptionAccess, SubscriptionAccessModule } from '../subscriptions/subscription-access.js';
import {
  type Delivery,
  DELIVERY_STATUSES,
  DeliveryFeed,
  deliveryOf,
  type DeliveryPlace,
  type DeliveryStatus,
} from './delivery-feed.js';

/** The query of listWebhookDeliveries. The window applies to the time at which deliveries were queued. */
export class DeliveryListQueryDto extends WindowQueryDto {
  @Optional()
  @IsIn(DELIVERY_STATUSES)
  status?: DeliveryStatus;
}

const PLACE_ID = /^(\d{1,3}) (\d{1,14}-\d{1,20}:[0-9A-Za-z_:]{1,64})$/;

/** Lists a subscription's deliveries for as long as their records are kept. */
@Injectable()
export class DeliveriesService {
  constructor(
    private readonly redis: RedisService,
    private readonly subscriptions: SubscriptionAccess,
    private readonly feed: DeliveryFeed,
  ) {}

  /** Newest first. @throws Refusal WEBHOOK_NOT_FOUND (also for another tenant's), INSUFFICIENT_PERMISSIONS, INVALID_REQUEST; StoreUnavailable */
  async list(caller: Caller, subscriptionId: string, query: DeliveryListQueryDto): Promise<Page<Delivery>> {
    const { owner } = await this.subscriptions.find(caller, subscriptionId);
    const { status, cursor, limit = DEFAULT_LIMIT } = query;
    const search = { subscriptionId, status, fromMs: instantMs(query.from), toMs: instantMs(query.to) };
    const fingerprint = fingerprintOf({ list: 'webhook-deliveries', ...search });
    const { rows, next } = await this.feed.page(
      search,
      this.partitionsOf(owner),
      Math.min(limit, MAX_LIMIT),
      placeOf(cursor, fingerprint),
    );
    const deliveries = rows.map(deliveryOf);
    return next === undefined
      ? { rows: deliveries, has_more: false }
      : { rows: deliveries, has_more: true, next_cursor: cursorOf(fingerprint, next) };
  }

  private partitionsOf(owner: string): number[] {
    const { partitions } = this.redis;
    return owner === SYSTEM_OWNER
      ? Array.from({ length: partitions }, (_, partition) => partition)
      : [partitionOfTenant(owner, partitions)];
  }
}

function cursorOf(fingerprint: string, { createdMs, partition, ref }: DeliveryPlace): string {
  return encodeCursor(fingerprint, { value: createdMs, id: `${partition} ${ref}` });
}

function placeOf(cursor = '', fingerprint: string): DeliveryPlace | undefined {
  if (cursor === '') {
    return undefined;
  }
  const { value, id } = decodeCursor(
    fingerprint,
    cursor,
    (position) => Number.isSafeInteger(position.value) && PLACE_ID.test(position.id),
  );
  const [, partition, ref] = PLACE_ID.exec(id) as unknown as [string, string, string];
  return { createdMs: value as number, partition: Number(partition), ref };
}

const validateList = compileQuery(DeliveryListQueryDto);

@Controller()
export class DeliveriesController {
  constructor(private readonly deliveries: DeliveriesService) {}

  @Get('v1/admin/webhooks/:subscription_id/deliveries')
  @Access({ plane: 'admin', admin: true })
  @LimitedQuery()
  @ApiOperation({ operationId: 'listWebhookDeliveries', summary: 'List the deliveries of a subscription' })
  @QuerySchema(DeliveryListQueryDto)
  @Answers(200, 'WebhookDeliveryListResponse')
  list(
    @Param('subscription_id') id: string,
    @Req() request: FastifyRequest,
    @Query() query: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    return this.answer(id, request, query, reply);
  }

  @Get('v1/webhooks/:subscription_id/deliveries')
  @Access({ plane: 'admin', tenant: 'webhooks:read', admin: true })
  @LimitedQuery()
  @ApiOperation({
    operationId: 'listTenantWebhookDeliveries',
    summary: "List the deliveries of a tenant's subscription",
  })
  @QuerySchema(DeliveryListQueryDto)
  @Answers(200, 'WebhookDeliveryListResponse')
  listOwn(
    @Param('subscription_id') id: string,
    @Req() request: FastifyRequest,
    @Query() query: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    return this.answer(id, request, query, reply);
  }

  private async answer(
    id: string,
    request: FastifyRequest,
    query: unknown,
    reply: FastifyReply,
  ): Promise<void> {
    const { rows, ...rest } = await this.deliveries.list(request.caller as Caller, id, validateList(query));
    sendJson(reply, 200, stringifyJson({ deliveries: rows, ...rest }));
  }
}

@Module({
  imports: [MetricsModule, SubscriptionAccessModule],
  controllers: [DeliveriesController],
  providers: [DeliveriesService, DeliveryFeed],
})
export class DeliveriesModule {}
