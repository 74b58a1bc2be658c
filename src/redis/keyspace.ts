import { hash } from 'node:crypto';
import calculateSlot from 'cluster-key-slot';

/**
 * All names of keys: those that scripts build, too, are generated from `lua/lib/keys.lua`.
 *
 * A key starts with the hash tag of its partition, `{p00}` to `{pff}`, so that all keys of a script are in one slot of a Redis Cluster. A
 * partition is `crc16(tenant_id) mod PARTITIONS`. Public ids contain it.
 */

export * from './keys.js';

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

/** The hash tag of a partition by its number. */
export function tagOfPartition(partition: number): string {
  return tagOf(partitionCode(partition));
}

/** The code of the partition a tenant lives in, which the ids of what it owns have. */
export function codeOfTenant(tenantId: string, partitions: number): string {
  return partitionCode(partitionOfTenant(tenantId, partitions));
}

/** The hash tag of the partition a tenant lives in. */
export function tagOfTenant(tenantId: string, partitions: number): string {
  return tagOf(codeOfTenant(tenantId, partitions));
}

/**
 * The hash tag of an envelope. Its id is a hash and names no tenant, so the partition follows from the id itself.
 * @param evidenceId 64 hex digits
 */
export function tagOfEvidenceId(evidenceId: string, partitions: number): string {
  return tagOfPartition(Number.parseInt(evidenceId.slice(0, 4), 16) % partitions);
}

/** Reads the hash tag in an id. Undefined if Holdfast never issued such an id. */
const tagIn =
  (pattern: RegExp) =>
  (id: string, partitions: number): string | undefined => {
    const code = pattern.exec(id)?.[1];
    return code !== undefined && Number.parseInt(code, 16) < partitions ? tagOf(code) : undefined;
  };

export const tagOfReservationId = tagIn(/^rsv_([0-9a-f]{2})[0-9A-Za-z]{16}$/);
/** Ends with the instant of the debit, see lua/ledger/lib/debit_record.lua. Ids of versions that kept none have no tag. */
export const tagOfDebitId = tagIn(/^evn_([0-9a-f]{2})[0-9A-Za-z]{9}[0-9a-f]{11}$/);
export const tagOfKeyId = tagIn(/^key_([0-9a-f]{2})[0-9A-Za-z]{16}$/);
export const tagOfPolicyId = tagIn(/^pol_([0-9a-f]{2})[0-9A-Za-z]{16}$/);
export const tagOfCreditId = tagIn(/^crd_([0-9a-f]{2})[0-9A-Za-z]{16}$/);
export const tagOfWebhookId = tagIn(/^whsub_([0-9a-f]{2})[0-9A-Za-z]{16}$/);
export const tagOfKeySecret = tagIn(/^cyc_(?:live|test)_([0-9a-f]{2})[0-9A-Za-z]{43}$/);

/** The audit rows that are kept for a shorter time: successful reads, and requests without valid credentials. */
export const briefAuditLogKey = (tag: string): string => `${tag}audit-brief`;
/** The request log: the last refused requests, a stream with the indexes of an audit log. */
export const requestLogKey = (tag: string): string => `${tag}refused`;
/** Maps the SHA-256 of a secret (base64url) to its key id. */
export const apiKeyHashKey = (tag: string, secretHash: string): string => `${tag}kh:${secretHash}`;
/** The names of all operators, a sorted set whose scores are 0. */
export const operatorIndexKey = (tag: string): string => `${tag}operators`;
/** The last entry of the event log that is counted in the rates. */
export const ratesCursorKey = (tag: string): string => `${tag}rates-cursor`;
/** Tenants whose rates have grown and are still to be compared with their thresholds, a set. */
export const ratesDueKey = (tag: string): string => `${tag}rates-due`;
/** Exists until the tenant's budgets are due for the next check of how fast they are spent. */
export const burnRatesCheckedKey = (tag: string, tenantId: string): string =>
  `${tag}burn-checked:${tenantId}`;

/** A signed envelope: its canonical JSON. */
export const evidenceKey = (tag: string, evidenceId: string): string => `${tag}e:${evidenceId}`;

/** The running replay of the subscription, a hash. */
export const replayKey = (tag: string, subscriptionId: string): string => `${tag}replay:${subscriptionId}`;
/** The webhook security configuration: JSON, in the partition of the operators. */
export const webhookSecurityKey = (tag: string): string => `${tag}webhook-security`;
/** A bulk action by its idempotency key, a hash. */
export const bulkActionKey = (tag: string, key: string): string => `${tag}bulk:${key}`;

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
  refund: (tag: string, tenantId: string, chargeId: string, key: string): string =>
    `${tag}i:m:${tenantId}|${chargeId}|${key}`,
  decide: (tag: string, tenantId: string, key: string): string => `${tag}i:d:${tenantId}|${key}`,
  directDebit: (tag: string, tenantId: string, key: string): string => `${tag}i:e:${tenantId}|${key}`,
  fund: (tag: string, unit: string, scope: string, key: string): string =>
    `${tag}i:f:${unit}|${scope}|${key}`,
  credit: (tag: string, unit: string, scope: string, key: string): string =>
    `${tag}i:g:${unit}|${scope}|${key}`,
};

/** A session of the operators' console by the keyed hash of its token: whose it is, a JSON text with an expiry. */
export const consoleSessionKey = (tag: string, hash: string): string => `${tag}cs:${hash}`;
/** What all instances did in one hour of Redis' clock, in the operators' partition: a hash, see src/console/activity-recorder.ts. */
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

/** The pub/sub channel that announces the secret hashes of revoked keys, so that all instances drop them from their caches. */
export const keyRevokedChannel = (): string => 'holdfast:key-revoked';

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
