import { Inject, Injectable } from '@nestjs/common';
import type { CyclesEvent } from '../../event-log/index.js';
import { fieldsOf, type Fields } from '../../governance/listing/index.js';
import { LOGGER, type Logger } from '../../logging/index.js';
import { MetricsRegistry, type LabelledCounter } from '../../metrics/index.js';
import {
  partitionCode,
  partitionOfTenant,
  RedisService,
  SYSTEM_OWNER,
  tagOf,
  tagOfWebhookId,
  webhookKey,
  webhookRevisionKey,
  type Reply,
} from '../../redis/index.js';
import { matches, targetOf, type DispatchTarget } from './dispatch-target.js';

/** How long a look at one subscription holds for all of its partition. An edit counts for attempts that start later than this. */
const LOOK_HOLDS_MS = 50;
/** What does not change by itself is read again after this, for a secret's rotation ends without a change. */
const READ_AGAIN_MS = 60_000;
/** Owners, and subscriptions, that are kept at most. */
const KEPT = 20_000;

/** What a target is made of, by the names of lua/lib/webhook.lua. */
const TARGET_FIELDS = ['st', 'ur', 'hd', 'rp', 'df', 'et', 'ec', 'sf', 'tu'] as const;

interface OwnersList {
  readonly revision: string;
  readonly targets: readonly DispatchTarget[];
}

interface Found {
  revision: string;
  readonly readAt: number;
  readonly record: string;
  readonly target: DispatchTarget | undefined;
}

interface Look {
  readonly revision: string;
  readonly at: number;
}

/**
 * The subscriptions of those whose events are dispatched, kept in memory and asked for again only when the revision of their
 * partition has changed. Whoever reads events first and refreshes then misses no subscription that was made before an event.
 */
@Injectable()
export class SubscriptionBook {
  private readonly lists = new Map<string, OwnersList>();
  private readonly found = new Map<string, Found>();
  private readonly looks = new Map<string, Look>();

  private readonly unreadable: LabelledCounter;

  constructor(
    private readonly redis: RedisService,
    metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.unreadable = metrics.counter({
      name: 'holdfast_webhook_subscriptions_unreadable_total',
      help: 'Times that a subscription was left out of the dispatch because its record cannot be understood.',
    });
  }

  /** Brings the active subscriptions of these tenants, and the operators' own, up to date. @throws StoreUnavailable */
  async refresh(tenantIds: readonly string[]): Promise<void> {
    const groups = new Map<number, string[]>();
    for (const owner of new Set([...tenantIds, SYSTEM_OWNER])) {
      const partition = partitionOfTenant(owner, this.redis.partitions);
      groups.set(partition, [...(groups.get(partition) ?? []), owner]);
    }
    await Promise.all([...groups].map(([partition, owners]) => this.refreshPartition(tagOf(partitionCode(partition)), owners)));
  }

  /** Whether anybody could want this tenant's events, as of the last refresh. */
  hasTargets(tenantId: string): boolean {
    return this.activeOf(tenantId).length > 0 || this.activeOf(SYSTEM_OWNER).length > 0;
  }

  /** The active subscriptions that an event is for, as of the last refresh; none that was made after the event. */
  matching(event: CyclesEvent): readonly DispatchTarget[] {
    const owners = event.tenant_id === SYSTEM_OWNER ? [SYSTEM_OWNER] : [event.tenant_id, SYSTEM_OWNER];
    const eventMs = Date.parse(event.timestamp);
    return owners.flatMap((owner) => this.activeOf(owner).filter((target) => target.createdAtMs <= eventMs && matches(target, event)));
  }

  /**
   * One subscription in whatever status, at most 50 ms old; the same object for as long as its record is the same.
   * @throws StoreUnavailable
   */
  async find(subscriptionId: string): Promise<DispatchTarget | undefined> {
    const tag = tagOfWebhookId(subscriptionId, this.redis.partitions);
    if (tag === undefined) {
      return undefined;
    }
    const now = performance.now();
    const kept = this.found.get(subscriptionId);
    const fresh = kept !== undefined && now - kept.readAt < READ_AGAIN_MS ? kept : undefined;
    const look = this.looks.get(tag);
    if (fresh !== undefined && look !== undefined && look.revision === fresh.revision && now - look.at < LOOK_HOLDS_MS) {
      return fresh.target;
    }
    const reply = await this.redis.scripts.run(
      'find_webhook', [webhookKey(tag, subscriptionId), webhookRevisionKey(tag)], [fresh?.revision ?? ''],
    );
    if (reply[0] === 'UNCHANGED' && fresh !== undefined) {
      this.looks.set(tag, { revision: fresh.revision, at: now });
      return fresh.target;
    }
    return this.take(subscriptionId, tag, reply, kept, now);
  }

  private take(subscriptionId: string, tag: string, reply: Reply, kept: Found | undefined, now: number): DispatchTarget | undefined {
    const [word, revision = '', nowMs, ...record] = reply;
    const fields = fieldsOf(record);
    const target = word === 'FOUND' ? targetOf(fields, subscriptionId, Number(nowMs)) : undefined;
    // What deliveries themselves write into the record makes it no other subscription.
    const text = target === undefined ? '' : JSON.stringify([target.secrets, TARGET_FIELDS.map((field) => fields.get(field))]);
    const same = kept !== undefined && kept.record === text;
    this.looks.set(tag, { revision, at: now });
    keep(this.found, subscriptionId, { revision, readAt: now, record: text, target: same ? kept.target : target });
    return same ? kept.target : target;
  }

  private activeOf(owner: string): readonly DispatchTarget[] {
    return this.lists.get(owner)?.targets ?? [];
  }

  private async refreshPartition(tag: string, owners: readonly string[]): Promise<void> {
    const [revision = '', ...rest] = await this.redis.scripts.run(
      'webhook_targets', [webhookRevisionKey(tag)], owners.flatMap((owner) => [owner, this.lists.get(owner)?.revision ?? '']),
    );
    let at = 0;
    for (const owner of owners) {
      const count = rest[at];
      at += 1;
      if (count !== '=') {
        const targets: (DispatchTarget | undefined)[] = [];
        for (let left = Number(count); left > 0; left -= 1) {
          const end = at + 2 + Number(rest[at + 1]);
          targets.push(this.activeTarget(fieldsOf(rest.slice(at + 2, end)), rest[at] as string));
          at = end;
        }
        keep(this.lists, owner, { revision, targets: targets.filter((target) => target !== undefined) });
      }
    }
  }

  /** One whose record cannot be understood is nobody's: it must not stop the events of all others. */
  private activeTarget(fields: Fields, subscriptionId: string): DispatchTarget | undefined {
    try {
      return targetOf(fields, subscriptionId, 0);
    } catch (error) {
      this.unreadable.inc();
      this.logger.error({ err: error, subscription_id: subscriptionId }, 'a webhook subscription cannot be read and receives nothing; the others do');
      return undefined;
    }
  }
}

/** What was kept longest makes room: it is read again when somebody needs it. */
function keep<T>(kept: Map<string, T>, name: string, value: T): void {
  kept.delete(name);
  kept.set(name, value);
  if (kept.size > KEPT) {
    for (const [oldest] of kept) {
      kept.delete(oldest);
      break;
    }
  }
}
