import { hash } from 'node:crypto';
import calculateSlot from 'cluster-key-slot';

/**
 * Builds all names of keys, like `lua/lib/keys.lua`. A test compares the two.
 *
 * A key starts with the hash tag of its partition, `{p00}` to `{pff}`, so that all keys of a script are in one slot of a Redis Cluster. A
 * partition is `crc16(tenant_id) mod PARTITIONS`. Public ids contain it.
 */

/** Partition counts are powers of two up to this, so that the slot (crc16 mod 16384) gives the same partition as crc16 itself. */
export const MAX_PARTITIONS = 256;

/** The owner of what belongs to the operators. It has a partition like a tenant, but no tenant can have this id. */
export const SYSTEM_OWNER = '__system__';

/** The partition a tenant lives in, 0 to `partitions - 1`. */
export function partitionOfTenant(tenantId: string, partitions: number): number {
  return calculateSlot(tenantId) % partitions;
}

/** A partition in its wire form: two lower-case hex digits. */
export function partitionCode(partition: number): string {
  return partition.toString(16).padStart(2, '0');
}

/** The hash tag of a partition, `{p1f}`: the start of each of its keys. */
export function tagOf(code: string): string {
  return `{p${code}}`;
}

/**
 * The hash tag of an envelope. Its id is a hash and names no tenant, so the partition follows from the id itself.
 * @param evidenceId 64 hex digits
 */
export function tagOfEvidenceId(evidenceId: string, partitions: number): string {
  return tagOf(partitionCode(Number.parseInt(evidenceId.slice(0, 4), 16) % partitions));
}

const RESERVATION_ID = /^rsv_([0-9a-f]{2})[0-9A-Za-z]{16}$/;
const KEY_ID = /^key_([0-9a-f]{2})[0-9A-Za-z]{16}$/;
const WEBHOOK_ID = /^whsub_([0-9a-f]{2})[0-9A-Za-z]{16}$/;
const POLICY_ID = /^pol_([0-9a-f]{2})[0-9A-Za-z]{16}$/;
const KEY_SECRET = /^cyc_(?:live|test)_([0-9a-f]{2})[0-9A-Za-z]{43}$/;

function codeIn(pattern: RegExp, id: string, partitions: number): string | undefined {
  const code = pattern.exec(id)?.[1];
  return code !== undefined && Number.parseInt(code, 16) < partitions ? code : undefined;
}

/** The hash tag in a reservation id, or undefined if Holdfast never issued such an id. */
export function tagOfReservationId(id: string, partitions: number): string | undefined {
  const code = codeIn(RESERVATION_ID, id, partitions);
  return code === undefined ? undefined : tagOf(code);
}

/** The hash tag in an API key id, or undefined if Holdfast never issued such an id. */
export function tagOfKeyId(id: string, partitions: number): string | undefined {
  const code = codeIn(KEY_ID, id, partitions);
  return code === undefined ? undefined : tagOf(code);
}

/** The hash tag in a policy id, or undefined if Holdfast never issued such an id. */
export function tagOfPolicyId(id: string, partitions: number): string | undefined {
  const code = codeIn(POLICY_ID, id, partitions);
  return code === undefined ? undefined : tagOf(code);
}

/** The hash tag in a webhook subscription's id, or undefined if Holdfast never issued such an id. */
export function tagOfWebhookId(id: string, partitions: number): string | undefined {
  const code = codeIn(WEBHOOK_ID, id, partitions);
  return code === undefined ? undefined : tagOf(code);
}

/** The hash tag in an API key's secret, or undefined if the secret is malformed. */
export function tagOfKeySecret(secret: string, partitions: number): string | undefined {
  const code = codeIn(KEY_SECRET, secret, partitions);
  return code === undefined ? undefined : tagOf(code);
}

export const reservationKey = (tag: string, reservationId: string): string => `${tag}r:${reservationId}`;
/** The tenant's reservations, a sorted set of ids scored by creation time in ms. */
export const reservationIndexKey = (tag: string, tenantId: string): string => `${tag}rc:${tenantId}`;
export const ttlIndexKey = (tag: string): string => `${tag}ttl`;
/** Live reservations with MANUAL_CLEANUP, which the sweeper ignores, a sorted set of ids scored by reclaim deadline in ms. */
export const cleanupIndexKey = (tag: string): string => `${tag}cleanup`;
export const quarantineKey = (tag: string): string => `${tag}quarantine`;
/** What was charged and given back, a stream; lua/lib/journal.lua documents its entries. */
export const journalKey = (tag: string): string => `${tag}journal`;
/** How far those that follow the journal have come, a hash from the name of the work to the id of the last entry that it has passed. */
export const journalPlacesKey = (tag: string): string => `${tag}journal-places`;
export const eventLogKey = (tag: string): string => `${tag}events`;
/** The partition's events of one tenant, a stream with the ids of the event log and the type of each. */
export const tenantEventsKey = (tag: string, tenantId: string): string => `${tag}ev:${tenantId}`;
/** The partition's events with one correlation id, in the same form. */
export const correlatedEventsKey = (tag: string, correlationId: string): string =>
  `${tag}co:${correlationId}`;
export const tenantKey = (tag: string, tenantId: string): string => `${tag}t:${tenantId}`;
/** Counts of what the tenant owns, and its own limits: a hash. Separate from the tenant's record, which may not exist. */
export const ownedKey = (tag: string, tenantId: string): string => `${tag}own:${tenantId}`;
/** Bytes of the tenant's envelopes by the time in ms from which they are gone: a hash. */
export const evidenceBytesKey = (tag: string, tenantId: string): string => `${tag}eb:${tenantId}`;
/** The partition's tenants, a sorted set of ids scored by creation time in ms. */
export const tenantIndexKey = (tag: string): string => `${tag}tenants`;
export const budgetKey = (tag: string, unit: string, scope: string): string => `${tag}b:${unit}:${scope}`;
/** Places of the reserves that wait for a budget's funds, a sorted set scored by the number of their arrival; see lua/lib/waking.lua. */
export const waiterQueueKey = (tag: string, unit: string, scope: string): string =>
  `${tag}bw:${unit}:${scope}`;
/** The same places of all budgets of a tenant, a sorted set scored by when they lapse, in ms. */
export const waitersKey = (tag: string, tenantId: string): string => `${tag}waiters:${tenantId}`;
/** The number of the partition's last reserve that began to wait, a string. */
export const arrivalsKey = (tag: string): string => `${tag}arrivals`;
/** The tenant's budgets, a sorted set of members as `treeOrder` makes them of `scope unit`, all scores 0. */
export const budgetIndexKey = (tag: string, tenantId: string): string => `${tag}budgets:${tenantId}`;
/** A template that makes budgets, a hash. Its id is unique in its tenant. */
export const budgetTemplateKey = (tag: string, tenantId: string, templateId: string): string =>
  `${tag}bt:${tenantId}|${templateId}`;
/** The tenant's budget templates, a sorted set of ids scored by creation time in ms. */
export const budgetTemplateIndexKey = (tag: string, tenantId: string): string =>
  `${tag}templates:${tenantId}`;
/** Maps `unit pattern` to the tenant's budget templates with it, oldest first, and `revision` to that of the last change: a hash. */
export const budgetTemplatePatternKey = (tag: string, tenantId: string): string => `${tag}btp:${tenantId}`;
/** The partition's budgets with a period, a sorted set of `scope unit` members scored by the end of the period in ms. */
export const periodIndexKey = (tag: string): string => `${tag}periods`;
/** The partition's budgets with a recurrence, and windows of budgets, scored by when their boundaries must be planned again, in ms. */
export const periodPlansKey = (tag: string): string => `${tag}period-plans`;
/** Rollovers that no instance has counted in its metrics yet. */
export const rolledKey = (tag: string): string => `${tag}rolled`;
/** The same of budgets that templates have made. */
export const bornKey = (tag: string): string => `${tag}born`;
/** The same of windows that have turned. */
export const turnedKey = (tag: string): string => `${tag}turned`;
/** The audit log, a stream. */
export const auditLogKey = (tag: string): string => `${tag}audit`;
/** The audit rows that are kept for a shorter time: successful reads, and requests without valid credentials. */
export const briefAuditLogKey = (tag: string): string => `${tag}audit-brief`;
/** A part of an index of either log, a sorted set; lua/lib/audit_index.lua documents its content and the form of `index`. */
export const auditIndexKey = (tag: string, log: 'audit' | 'audit-brief', index: string): string =>
  `${tag}${log}:${index}`;
/** Closed tenants whose budgets, keys and so on are still being closed: a hash from the tenant to who closed it. */
export const closingKey = (tag: string): string => `${tag}closing`;
export const apiKeyKey = (tag: string, keyId: string): string => `${tag}k:${keyId}`;
/** Maps the SHA-256 of a secret (base64url) to its key id. */
export const apiKeyHashKey = (tag: string, secretHash: string): string => `${tag}kh:${secretHash}`;
/** The tenant's API keys, a sorted set of key ids scored by creation time in ms. */
export const apiKeyIndexKey = (tag: string, tenantId: string): string => `${tag}keys:${tenantId}`;
/** The partition's API keys that will expire, a sorted set of key ids scored by expiry in ms. */
export const apiKeyExpiryKey = (tag: string): string => `${tag}key-expiries`;
/** A named operator, a hash. All are in the system's partition. */
export const operatorKey = (tag: string, name: string): string => `${tag}op:${name}`;
/** Maps the SHA-256 of an operator's key (base64url) to the operator's name. */
export const operatorSecretKey = (tag: string, secretHash: string): string => `${tag}oh:${secretHash}`;
/** The names of all operators, a sorted set whose scores are 0. */
export const operatorIndexKey = (tag: string): string => `${tag}operators`;
export const policyKey = (tag: string, policyId: string): string => `${tag}p:${policyId}`;
/** The tenant's policies, a sorted set of policy ids scored by creation time in ms. */
export const policyIndexKey = (tag: string, tenantId: string): string => `${tag}policies:${tenantId}`;
/** Maps the name of a tenant's policy to its id, a hash. */
export const policyNameKey = (tag: string, tenantId: string): string => `${tag}pn:${tenantId}`;
/** Maps a scope pattern to the tenant's active policies with it, a hash. */
export const policyPatternKey = (tag: string, tenantId: string): string => `${tag}pp:${tenantId}`;
/** Requests that a policy with a rate limit has let pass in one minute of Redis' clock, a string. The kind is reservations or commits. */
export const policyRateKey = (tag: string, policyId: string, kind: string, minute: number): string =>
  `${tag}pr:${policyId}:${kind}:${minute}`;

/** How often something happened to a tenant in a slot of time, a string. The kind is one of lua/spikes; `__system__` owns what has no tenant. */
export const rateCountKey = (tag: string, owner: string, kind: string, slotS: number, slot: number): string =>
  `${tag}rate:${owner}:${kind}:${slotS}:${slot}`;
/** Exists for a window after the event that it names, so that the event is emitted once per window. */
export const rateToldKey = (tag: string, owner: string, name: string): string =>
  `${tag}rate-told:${owner}:${name}`;
/** The last entry of the event log that is counted in the rates. */
export const ratesCursorKey = (tag: string): string => `${tag}rates-cursor`;
/** Tenants whose rates have grown and are still to be compared with their thresholds, a set. */
export const ratesDueKey = (tag: string): string => `${tag}rates-due`;
/** How fast a budget was spent in windows of this length, a string; see lua/spikes/check_burn_rates.lua. */
export const burnRateKey = (tag: string, windowS: number, unit: string, scope: string): string =>
  `${tag}burn:${windowS}:${unit}:${scope}`;
/** Exists until the tenant's budgets are due for the next check of how fast they are spent. */
export const burnRatesCheckedKey = (tag: string, tenantId: string): string =>
  `${tag}burn-checked:${tenantId}`;

/** The tenant's counters of actions by calendar windows in one UTC day, by its number: a hash. */
export const actionCountersKey = (tag: string, tenantId: string, day: number): string =>
  `${tag}aq:${tenantId}|${day}`;
/** The fields of that hash in order, a sorted set, all scores 0. */
export const actionCounterIndexKey = (tag: string, tenantId: string, day: number): string =>
  `${tag}aqi:${tenantId}|${day}`;
/** The tenant's counters of actions in one run, a hash. The run is percent-encoded. */
export const runCountersKey = (tag: string, tenantId: string, run: string): string =>
  `${tag}ar:${tenantId}|${run}`;
/** The tenant's runs with counters, a sorted set scored by when they will have lapsed, in ms. */
export const runIndexKey = (tag: string, tenantId: string): string => `${tag}runs:${tenantId}`;
/** The counters of all runs in order, a sorted set of `run|field`, all scores 0. */
export const runCounterIndexKey = (tag: string, tenantId: string): string => `${tag}ari:${tenantId}`;

/** A signed envelope: its canonical JSON. */
export const evidenceKey = (tag: string, evidenceId: string): string => `${tag}e:${evidenceId}`;

export const webhookKey = (tag: string, subscriptionId: string): string => `${tag}w:${subscriptionId}`;
/** The tenant's webhook subscriptions, a sorted set of ids, all scores 0. */
export const webhookIndexKey = (tag: string, tenantId: string): string => `${tag}webhooks:${tenantId}`;
/** Changes with every change to a subscription of the partition that affects dispatch. */
export const webhookRevisionKey = (tag: string): string => `${tag}webhook-revision`;
/** The owner's latest changed subscriptions, including deleted ones, a sorted set of ids scored by the revision of the change. */
export const webhookChangesKey = (tag: string, owner: string): string => `${tag}webhook-changes:${owner}`;
/** For each custom utilization threshold, how many active subscriptions of the tenant use it. */
export const webhookMarksKey = (tag: string, tenantId: string): string => `${tag}webhook-marks:${tenantId}`;
/**
 * The delivery of an event to a subscription. The ref is the entry id of the event, the subscription's id, and that of a replay if any,
 * joined by colons.
 */
export const deliveryKey = (tag: string, ref: string): string => `${tag}d:${ref}`;
/** The subscription's deliveries, a sorted set of refs scored by creation time in ms. */
export const deliveryIndexKey = (tag: string, subscriptionId: string): string => `${tag}wd:${subscriptionId}`;
/** Deliveries of one tenant's events to one subscription that wait for their first attempt, a list of refs, oldest first. */
export const orderedQueueKey = (tag: string, queue: string): string => `${tag}lane:${queue}`;
/** The partition's queues that are not empty, a set of `<subscription_id>:<tenant>`. */
export const orderedQueuesKey = (tag: string): string => `${tag}lanes`;
/** The running replay of the subscription, a hash. */
export const replayKey = (tag: string, subscriptionId: string): string => `${tag}replay:${subscriptionId}`;
/** Deliveries to retry, a sorted set of refs scored by the time of the next attempt in ms. */
export const retryingKey = (tag: string): string => `${tag}retrying`;
/** Abandoned deliveries that are not yet counted against their subscriptions, a sorted set of refs scored by the time in ms. */
export const outcomesKey = (tag: string): string => `${tag}outcomes`;
/** The webhook security configuration: JSON, in the partition of the operators. */
export const webhookSecurityKey = (tag: string): string => `${tag}webhook-security`;
/** A bulk action by its idempotency key, a hash; and the ids that it has changed in a partition, a set. */
export const bulkActionKey = (tag: string, key: string): string => `${tag}bulk:${key}`;
export const bulkRowsKey = (tag: string, requestId: string): string => `${tag}bulk-rows:${requestId}`;

/**
 * The hash takes a third of the bytes of the name. With 88 bits, nobody can find a key of their own whose record has the same name as
 * somebody else's.
 */
function hashedIdempotencyKey(tag: string, name: string): string {
  return `${tag}i:${hash('sha1', name).slice(0, 22)}`;
}

/**
 * The record of one idempotent operation. The caller's key comes last, because it may contain any character. The parts before it cannot
 * contain the separators, so two different operations never share a name. Those that every reservation has are named by a hash.
 */
export const idempotencyKey = {
  reserve: (tag: string, tenantId: string, key: string): string =>
    hashedIdempotencyKey(tag, `r:${tenantId}|${key}`),
  commit: (tag: string, tenantId: string, reservationId: string, key: string): string =>
    hashedIdempotencyKey(tag, `c:${tenantId}|${reservationId}|${key}`),
  release: (tag: string, tenantId: string, reservationId: string, key: string): string =>
    hashedIdempotencyKey(tag, `l:${tenantId}|${reservationId}|${key}`),
  extend: (tag: string, tenantId: string, reservationId: string, key: string): string =>
    `${tag}i:x:${tenantId}|${reservationId}|${key}`,
  decide: (tag: string, tenantId: string, key: string): string => `${tag}i:d:${tenantId}|${key}`,
  directDebit: (tag: string, tenantId: string, key: string): string => `${tag}i:e:${tenantId}|${key}`,
  fund: (tag: string, unit: string, scope: string, key: string): string =>
    `${tag}i:f:${unit}|${scope}|${key}`,
};

/** A session of the operators' console by the keyed hash of its token: whose it is, a JSON text with an expiry. */
export const consoleSessionKey = (tag: string, hash: string): string => `${tag}cs:${hash}`;
/** What all instances did in one hour of Redis' clock, in the operators' partition: a hash, see src/operators/activity-recorder.ts. */
export const activityKey = (tag: string, hour: number): string => `${tag}activity:${hour}`;

/** When the last reported outage of the store ended. */
export const storeOutageKey = (tag: string): string => `${tag}outage`;

/** The lease of the partition's sweeper: a token with an expiry. */
export const sweepLeaseKey = (tag: string): string => `${tag}lease`;
/**
 * The instances that sweep, a sorted set scored by when their announcement expires in ms, and a hash of what each instance reports about
 * itself.
 */
export const sweepInstancesKey = (): string => '{holdfast}instances';
export const sweepReportsKey = (): string => '{holdfast}sweepers';
/** The same keys for the dispatch of events. */
export const dispatchLeaseKey = (tag: string): string => `${tag}dispatch`;
export const dispatchInstancesKey = (): string => '{holdfast}dispatch-instances';
export const dispatchReportsKey = (): string => '{holdfast}dispatchers';

/** The same keys for the archiver. */
export const archiveLeaseKey = (tag: string): string => `${tag}archive`;
export const archiveInstancesKey = (): string => '{holdfast}archive-instances';
export const archiveReportsKey = (): string => '{holdfast}archivers';
/** The id of the archive that this ledger is written to, a string. */
export const archiveIdKey = (): string => '{holdfast}archive-id';

/** Held by the instance that begins an epoch of the archive. */
export const archiveEpochKey = (): string => '{holdfast}archive-epoch';

/** The settings that the deployment was created with: partitions and schema version. Read only at boot. */
export const metaKey = (): string => '{holdfast}meta';

/** How far time is ahead of Redis' clock, a hash, if HOLDFAST_TEST_CLOCK is set; see lua/clock/lib/test_clock.lua. */
export const testClockKey = (): string => '{holdfast}test-clock';

/** The pub/sub channel that announces the secret hashes of revoked keys, so that all instances drop them from their caches. */
export const keyRevokedChannel = (): string => 'holdfast:key-revoked';

/** The pub/sub channel on which an instance learns which of its waiting reserves has its turn. */
export const wakeChannel = (instance: string): string => `holdfast:wake:${instance}`;

/**
 * A time in ms as a bound of a stream range. Stream ids cannot be negative. Times before 1970 become 0-0, which no entry has: a window
 * that ends there is empty, and one that starts there includes all entries.
 */
export function streamBound(ms: number): string {
  return ms < 0 ? '0-0' : ms.toString();
}

export interface StreamWindow {
  readonly direction: 'asc' | 'desc';
  /** Inclusive bounds in ms. */
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
}

export interface StreamRange {
  readonly start: string;
  readonly stop: string;
}

/**
 * Where reading a stream starts and ends.
 * @param resume where the previous page ended, and how to continue from there; ignored before the start of the window
 */
export function streamRange(
  { direction, fromMs, toMs }: StreamWindow,
  resume?: { readonly atMs: number; readonly start: string },
): StreamRange {
  const isDown = direction === 'desc';
  const [first, last] = isDown ? [toMs, fromMs] : [fromMs, toMs];
  const stop = last === undefined ? (isDown ? '-' : '+') : streamBound(last);
  const isInside =
    resume !== undefined && (first === undefined || (isDown ? resume.atMs <= first : resume.atMs >= first));
  if (isInside) {
    return { start: resume.start, stop };
  }
  return { start: first === undefined ? (isDown ? '+' : '-') : streamBound(first), stop };
}

const UINT64_MAX = (1n << 64n) - 1n;

/** Whether Redis accepts the text as a stream id. In a forged cursor it may be too large. */
export function isStreamId(text: string): boolean {
  const parts = /^(\d{1,14})-(\d{1,20})$/.exec(text);
  return parts !== null && BigInt(parts[2] as string) <= UINT64_MAX;
}
