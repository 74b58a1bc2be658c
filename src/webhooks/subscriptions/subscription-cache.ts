import { Inject, Injectable } from '@nestjs/common';
import { type CyclesEvent } from '../../events/index.js';
import { categoryOf } from '../../ledger/index.js';
import {
  partitionOfTenant,
  RedisService,
  type ScriptAnswer,
  type ScriptReply,
  SYSTEM_OWNER,
  tagOfPartition,
  tagOfWebhookId,
  webhookKey,
  webhookRevisionKey,
} from '../../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry } from '../../telemetry/index.js';
import { type Fields } from '../../wire/index.js';
import { type DispatchTarget, matches, selects, targetOf } from './dispatch-target.js';
import { WEBHOOK_METRICS } from '../webhooks.metrics.js';

/** For how long a check of the revision is valid for its whole partition. An edit takes effect for attempts that start later. */
const REVISION_VALID_MS = 50;
/** From this age on, a check is repeated while it is still valid, so that attempts in a row do not wait for it. */
const REVISION_OLD_MS = 25;
/** Everything is read again after this, because the end of a secret's rotation does not change the revision. */
const READ_AGAIN_MS = 60_000;
/** The most owners, and the most subscriptions, in the cache. */
const MAX_CACHED = 20_000;

/** The fields of a target, named by lua/lib/webhook_record.lua. */
const TARGET_FIELDS = ['st', 'ur', 'hd', 'rp', 'df', 'et', 'ec', 'sf', 'tu', 'th'] as const;

/** The part of a reply about one owner's list. */
type OwnersPart = ScriptReply<'webhook_targets'>['owners'][number];

/** Owners whose lists one script reads. */
const OWNERS_A_RUN = 100;

interface OwnersList {
  readonly revision: string;
  /** When the reading of the whole list was begun. Changes since then follow it. */
  readonly readAt: number;
  readonly byId: ReadonlyMap<string, DispatchTarget>;
  readonly targets: readonly DispatchTarget[];
}

/** A list that is being updated. Nothing else uses it until it is complete. */
interface Reading {
  readonly owner: string;
  readonly known: OwnersList | undefined;
  readonly beganAt: number;
  /** The revision up to which changes are included; empty at first. */
  revision: string;
  /** The id after which reading the whole list continues; empty if that is not in progress. */
  after: string;
  readAt: number;
  isWhole: boolean;
  /** The changed list; undefined as long as nothing has changed. */
  changed: Map<string, DispatchTarget> | undefined;
}

interface Found {
  revision: string;
  readonly readAt: number;
  readonly record: string;
  readonly target: DispatchTarget | undefined;
}

interface RevisionCheck {
  readonly revision: string;
  readonly at: number;
}

/**
 * Caches the subscriptions of owners whose events are dispatched, and reads them again only when the revision of their partition has
 * changed. A caller that first reads events and then refreshes misses no subscription created before one of the events.
 */
@Injectable()
export class SubscriptionCache {
  private readonly lists = new Map<string, OwnersList>();
  private readonly found = new Map<string, Found>();
  private readonly checks = new Map<string, RevisionCheck>();
  /** The partitions whose check is being repeated ahead of time. */
  private readonly checkedAhead = new Set<string>();

  private readonly counts = this.metrics.of(WEBHOOK_METRICS);

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  /** Updates the active subscriptions of these tenants and of the operators. @throws StoreUnavailable */
  async refresh(tenantIds: readonly string[]): Promise<void> {
    const groups = new Map<number, string[]>();
    for (const owner of new Set([...tenantIds, SYSTEM_OWNER])) {
      const partition = partitionOfTenant(owner, this.redis.partitions);
      groups.set(partition, [...(groups.get(partition) ?? []), owner]);
    }
    await Promise.all(
      [...groups].map(([partition, owners]) => this.refreshPartition(tagOfPartition(partition), owners)),
    );
  }

  /** Whether any subscription could receive this tenant's events, as of the last refresh. */
  hasTargets(tenantId: string): boolean {
    return this.activeOf(tenantId).length > 0 || this.activeOf(SYSTEM_OWNER).length > 0;
  }

  /** The active subscriptions that receive an event, as of the last refresh. Only those created before the event. */
  matching(event: CyclesEvent): readonly DispatchTarget[] {
    const owners = event.tenant_id === SYSTEM_OWNER ? [SYSTEM_OWNER] : [event.tenant_id, SYSTEM_OWNER];
    const eventMs = Date.parse(event.timestamp);
    return owners.flatMap((owner) =>
      this.activeOf(owner).filter((target) => target.createdAtMs <= eventMs && matches(target, event)),
    );
  }

  /** The active subscriptions of a tenant and of the operators that select this type of event, as of the last refresh. */
  selecting(tenantId: string, eventType: string): readonly DispatchTarget[] {
    return [...new Set([tenantId, SYSTEM_OWNER])].flatMap((owner) =>
      this.activeOf(owner).filter((target) => selects(target, eventType, categoryOf(eventType))),
    );
  }

  /**
   * One subscription in any status, at most 50 ms old. Returns the same object as long as its record does not change.
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
    const check = this.checks.get(tag);
    if (
      fresh !== undefined &&
      check !== undefined &&
      check.revision === fresh.revision &&
      now - check.at < REVISION_VALID_MS
    ) {
      if (now - check.at >= REVISION_OLD_MS && !this.checkedAhead.has(tag)) {
        this.checkedAhead.add(tag);
        // If it fails, so will the check of an attempt that has to wait for it.
        void this.check(subscriptionId, tag, kept, fresh)
          .catch(() => undefined)
          .finally(() => this.checkedAhead.delete(tag));
      }
      return fresh.target;
    }
    return this.check(subscriptionId, tag, kept, fresh);
  }

  /** @param fresh what is kept, if it is not too old @throws StoreUnavailable */
  private async check(
    subscriptionId: string,
    tag: string,
    kept: Found | undefined,
    fresh: Found | undefined,
  ): Promise<DispatchTarget | undefined> {
    const now = performance.now();
    const reply = await this.redis.scripts.call(
      'find_webhook',
      { webhook: webhookKey(tag, subscriptionId), webhookRevision: webhookRevisionKey(tag) },
      { known: fresh?.revision ?? '', whole: 0 },
    );
    if (reply.status === 'UNCHANGED') {
      this.checks.set(tag, { revision: fresh?.revision ?? '', at: now });
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
    // Fields that deliveries themselves update do not count as changes.
    const text =
      target === undefined || reply.status !== 'FOUND'
        ? ''
        : JSON.stringify([target.secrets, TARGET_FIELDS.map((field) => reply.record.get(field))]);
    const same = kept !== undefined && kept.record === text;
    this.checks.set(tag, { revision, at: now });
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

  /** Reads until every list matches Redis: the changes since it was read, or all of it if it is not cached. */
  private async refreshPartition(tag: string, owners: readonly string[]): Promise<void> {
    let open = owners.map((owner) => this.reading(owner));
    while (open.length > 0) {
      const asked = open.slice(0, OWNERS_A_RUN);
      const { revision, owners: lists } = await this.redis.scripts.call(
        'webhook_targets',
        { webhookRevision: webhookRevisionKey(tag) },
        { rest: asked.flatMap(({ owner, revision: known, after }) => [owner, known, after]) },
      );
      const done = new Set<Reading>();
      for (const [index, part] of lists.entries()) {
        const reading = asked[index] as Reading;
        this.applyPart(reading, part, revision);
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
    const beganAt = performance.now();
    const isFresh = known !== undefined && beganAt - known.readAt < READ_AGAIN_MS;
    return isFresh
      ? {
          owner,
          known,
          beganAt,
          revision: known.revision,
          after: '',
          readAt: known.readAt,
          isWhole: false,
          changed: undefined,
        }
      : {
          owner,
          known: undefined,
          beganAt,
          revision: '',
          after: '',
          readAt: beganAt,
          isWhole: true,
          changed: undefined,
        };
  }

  private applyPart(reading: Reading, { form, next = '', targets }: OwnersPart, revision: string): void {
    const isAll = form === 'ALL';
    if (isAll && reading.after === '') {
      // Changes during the reading of a long list follow afterwards, as changes since its start.
      Object.assign(reading, { revision, readAt: reading.beganAt, isWhole: true, changed: new Map() });
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

  /**
   * Concurrent calls may read the same list. The newer one wins: of whole lists the one that was begun later, because Redis itself may have gone
   * back to an earlier state.
   */
  private publish({ owner, revision, readAt, isWhole, known, changed }: Reading): void {
    const current = this.lists.get(owner);
    const isNewer = (than: OwnersList): boolean =>
      isWhole ? readAt >= than.readAt : Number(revision) >= Number(than.revision);
    if (current === undefined || isNewer(current)) {
      const byId = changed ?? known?.byId ?? new Map<string, DispatchTarget>();
      const targets = changed === undefined ? (known?.targets ?? []) : [...changed.values()];
      keep(this.lists, owner, { revision, readAt, byId, targets });
    }
  }

  /** Skips a corrupt record, so that it does not stop the events of all other subscriptions. */
  private activeTarget(fields: Fields, subscriptionId: string): DispatchTarget | undefined {
    try {
      return targetOf(fields, subscriptionId, 0);
    } catch (error) {
      this.counts.unreadable.inc();
      this.logger.error(
        { err: error, subscription_id: subscriptionId },
        'a webhook subscription cannot be read and receives no events; others are not affected',
      );
      return undefined;
    }
  }
}

/** Evicts the oldest entry when full. It is read again when needed. */
function keep<T>(kept: Map<string, T>, name: string, value: T): void {
  kept.delete(name);
  kept.set(name, value);
  if (kept.size > MAX_CACHED) {
    for (const [oldest] of kept) {
      kept.delete(oldest);
      break;
    }
  }
}
