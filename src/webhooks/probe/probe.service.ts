import { Injectable } from '@nestjs/common';
import type { Caller } from '../../auth/index.js';
import type { Origin } from '../../governance/index.js';
import type { RequestTrace } from '../../http/index.js';
import { RedisService } from '../../redis/index.js';
import { SubscriptionAccess } from '../subscriptions/index.js';
import { probeEvent } from './probe-event.js';
import { Prober, type ProbeResult } from './prober.js';

/** POST .../test: whether a subscription's endpoint can be reached, whatever the subscription's status. */
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
