import { Inject, Injectable } from '@nestjs/common';
import type { CyclesEvent } from '../../events/index.js';
import {
  partitionCode,
  partitionOfTenant,
  RedisService,
  type ScriptAnswer,
  type ScriptReply,
  SYSTEM_OWNER,
  tagOf,
  tagOfWebhookId,
  webhookKey,
  webhookRevisionKey,
} from '../../redis/index.js';
import { type LabelledCounter, LOGGER, type Logger, MetricsRegistry } from '../../telemetry/index.js';
import { type Fields } from '../../wire/index.js';
import { type DispatchTarget, matches, targetOf } from './dispatch-target.js';

/** How long a look at one subscription holds for all of its partition. An edit counts for attempts that start later than this. */
const LOOK_HOLDS_MS = 50;
/** What does not change by itself is read again after this, for a secret's rotation ends without a change. */
const READ_AGAIN_MS = 60_000;
/** Owners, and subscriptions, that are kept at most. */
const KEPT = 20_000;

/** What a target is made of, by the names of lua/lib/webhook.lua. */
const TARGET_FIELDS = ['st', 'ur', 'hd', 'rp', 'df', 'et', 'ec', 'sf', 'tu'] as const;

/** What a reply tells of one owner's list. */
type OwnersPart = ScriptReply<'webhook_targets'>['owners'][number];

/** Owners whose lists one script is asked for. */
const OWNERS_A_RUN = 100;

interface OwnersList {
  readonly revision: string;
  readonly readAt: number;
  readonly byId: ReadonlyMap<string, DispatchTarget>;
  readonly targets: readonly DispatchTarget[];
}

/** A list that is being brought up to date; nobody else sees it until it is. */
interface Reading {
  readonly owner: string;
  readonly known: OwnersList | undefined;
  /** Up to which changes are in it; empty while there is nothing. */
  revision: string;
  /** Behind which id the reading of the whole list goes on; empty when that is not under way. */
  after: string;
  readAt: number;
  isWhole: boolean;
  /** The list as it is changed; undefined while it is as it was. */
  changed: Map<string, DispatchTarget> | undefined;
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
    await Promise.all(
      [...groups].map(([partition, owners]) =>
        this.refreshPartition(tagOf(partitionCode(partition)), owners),
      ),
    );
  }

  /** Whether anybody could want this tenant's events, as of the last refresh. */
  hasTargets(tenantId: string): boolean {
    return this.activeOf(tenantId).length > 0 || this.activeOf(SYSTEM_OWNER).length > 0;
  }

  /** The active subscriptions that an event is for, as of the last refresh; none that was made after the event. */
  matching(event: CyclesEvent): readonly DispatchTarget[] {
    const owners = event.tenant_id === SYSTEM_OWNER ? [SYSTEM_OWNER] : [event.tenant_id, SYSTEM_OWNER];
    const eventMs = Date.parse(event.timestamp);
    return owners.flatMap((owner) =>
      this.activeOf(owner).filter((target) => target.createdAtMs <= eventMs && matches(target, event)),
    );
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
    if (
      fresh !== undefined &&
      look !== undefined &&
      look.revision === fresh.revision &&
      now - look.at < LOOK_HOLDS_MS
    ) {
      return fresh.target;
    }
    const reply = await this.redis.scripts.call(
      'find_webhook',
      { webhook: webhookKey(tag, subscriptionId), webhookRevision: webhookRevisionKey(tag) },
      { known: fresh?.revision ?? '', whole: 0 },
    );
    if (reply.status === 'UNCHANGED') {
      this.looks.set(tag, { revision: fresh?.revision ?? '', at: now });
      return fresh?.target;
    }
    return this.keepFound(subscriptionId, tag, reply, kept, now);
  }

  private keepFound(
    subscriptionId: string,
    tag: string,
    reply: ScriptAnswer<'find_webhook', 'FOUND' | 'NOT_FOUND'>,
    kept: Found | undefined,
    now: number,
  ): DispatchTarget | undefined {
    const { revision } = reply;
    const target = reply.status === 'FOUND' ? targetOf(reply.record, subscriptionId, reply.nowMs) : undefined;
    // What deliveries themselves write into the record makes it no other subscription.
    const text =
      target === undefined || reply.status !== 'FOUND'
        ? ''
        : JSON.stringify([target.secrets, TARGET_FIELDS.map((field) => reply.record.get(field))]);
    const same = kept !== undefined && kept.record === text;
    this.looks.set(tag, { revision, at: now });
    keep(this.found, subscriptionId, {
      revision,
      readAt: now,
      record: text,
      target: same ? kept.target : target,
    });
    return same ? kept.target : target;
  }

  private activeOf(owner: string): readonly DispatchTarget[] {
    return this.lists.get(owner)?.targets ?? [];
  }

  /** Asks until every list is as it is in Redis: what changed since it was read, or all of it where nothing is known. */
  private async refreshPartition(tag: string, owners: readonly string[]): Promise<void> {
    let open = owners.map((owner) => this.reading(owner));
    while (open.length > 0) {
      const asked = open.slice(0, OWNERS_A_RUN);
      const { revision, owners: told } = await this.redis.scripts.call(
        'webhook_targets',
        { webhookRevision: webhookRevisionKey(tag) },
        { rest: asked.flatMap(({ owner, revision: known, after }) => [owner, known, after]) },
      );
      const done = new Set<Reading>();
      for (const [index, part] of told.entries()) {
        const reading = asked[index] as Reading;
        this.readOn(reading, part, revision);
        if (reading.after === '' && reading.revision === revision) {
          done.add(reading);
          this.publish(reading);
        }
      }
      open = open.filter((reading) => !done.has(reading));
    }
  }

  private reading(owner: string): Reading {
    const known = this.lists.get(owner);
    const isFresh = known !== undefined && performance.now() - known.readAt < READ_AGAIN_MS;
    return isFresh
      ? {
          owner,
          known,
          revision: known.revision,
          after: '',
          readAt: known.readAt,
          isWhole: false,
          changed: undefined,
        }
      : {
          owner,
          known: undefined,
          revision: '',
          after: '',
          readAt: performance.now(),
          isWhole: true,
          changed: undefined,
        };
  }

  private readOn(reading: Reading, { form, next = '', targets }: OwnersPart, revision: string): void {
    const isAll = form === 'ALL';
    if (isAll && reading.after === '') {
      // What changes while a long list is read is told afterwards, as changes since it began.
      Object.assign(reading, { revision, readAt: performance.now(), isWhole: true, changed: new Map() });
    }
    if (targets.length > 0) {
      reading.changed ??= new Map(reading.known?.byId);
    }
    for (const { id, record } of targets) {
      const target = record.size === 0 ? undefined : this.activeTarget(record, id);
      if (target === undefined) {
        reading.changed?.delete(id);
      } else {
        reading.changed?.set(id, target);
      }
    }
    if (isAll) {
      reading.after = next;
    } else {
      reading.revision = next === '' ? revision : next;
    }
  }

  /** Several may read the same list at a time. One that knows more stays, unless Redis itself went back to an earlier state. */
  private publish({ owner, revision, readAt, isWhole, known, changed }: Reading): void {
    const current = this.lists.get(owner);
    if (isWhole || current === undefined || Number(revision) >= Number(current.revision)) {
      const byId = changed ?? known?.byId ?? new Map<string, DispatchTarget>();
      const targets = changed === undefined ? (known?.targets ?? []) : [...changed.values()];
      keep(this.lists, owner, { revision, readAt, byId, targets });
    }
  }

  /** One whose record cannot be understood is nobody's: it must not stop the events of all others. */
  private activeTarget(fields: Fields, subscriptionId: string): DispatchTarget | undefined {
    try {
      return targetOf(fields, subscriptionId, 0);
    } catch (error) {
      this.unreadable.inc();
      this.logger.error(
        { err: error, subscription_id: subscriptionId },
        'a webhook subscription cannot be read and receives nothing; the others do',
      );
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
