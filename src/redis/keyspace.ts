import { createRequire } from 'node:module';

/**
 * Every key name of Holdfast is built here, and by its twin `lua/lib/keys.lua`; a test compares the two.
 *
 * A key starts with its partition's hash tag, `{p00}` to `{pff}`, so that all that one script touches lives in one
 * slot of a Redis Cluster. A partition is `crc16(tenant_id) mod PARTITIONS`; ids that leave the process embed it.
 */
const calculateSlot = createRequire(import.meta.url)('cluster-key-slot') as (key: string) => number;

/** Partition counts are powers of two up to this, so that the slot (crc16 mod 16384) gives the same partition as crc16 itself. */
export const MAX_PARTITIONS = 256;

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

const RESERVATION_ID = /^rsv_([0-9a-f]{2})[0-9A-Za-z]{16}$/;
const KEY_ID = /^key_([0-9a-f]{2})[0-9A-Za-z]{16}$/;
const POLICY_ID = /^pol_([0-9a-f]{2})[0-9A-Za-z]{16}$/;
const KEY_SECRET = /^cyc_(?:live|test)_([0-9a-f]{2})[0-9A-Za-z]{43}$/;

function codeIn(pattern: RegExp, id: string, partitions: number): string | undefined {
  const code = pattern.exec(id)?.[1];
  return code !== undefined && Number.parseInt(code, 16) < partitions ? code : undefined;
}

/** The hash tag that a reservation id names, or undefined when Holdfast never issued such an id. */
export function tagOfReservationId(id: string, partitions: number): string | undefined {
  const code = codeIn(RESERVATION_ID, id, partitions);
  return code === undefined ? undefined : tagOf(code);
}

/** The hash tag that an API key id names, or undefined when Holdfast never issued such an id. */
export function tagOfKeyId(id: string, partitions: number): string | undefined {
  const code = codeIn(KEY_ID, id, partitions);
  return code === undefined ? undefined : tagOf(code);
}

/** The hash tag that a policy id names, or undefined when Holdfast never issued such an id. */
export function tagOfPolicyId(id: string, partitions: number): string | undefined {
  const code = codeIn(POLICY_ID, id, partitions);
  return code === undefined ? undefined : tagOf(code);
}

/** The hash tag that an API key's secret names, or undefined when it has not the form of one. */
export function tagOfKeySecret(secret: string, partitions: number): string | undefined {
  const code = codeIn(KEY_SECRET, secret, partitions);
  return code === undefined ? undefined : tagOf(code);
}

export const reservationKey = (tag: string, reservationId: string): string => `${tag}r:${reservationId}`;
/** The tenant's reservations, a sorted set of ids scored by creation time in ms. */
export const reservationIndexKey = (tag: string, tenantId: string): string => `${tag}rc:${tenantId}`;
export const ttlIndexKey = (tag: string): string => `${tag}ttl`;
export const quarantineKey = (tag: string): string => `${tag}quarantine`;
/** Reservations that ended and whose records are still to be packed, a list of ids, oldest first. */
export const endedKey = (tag: string): string => `${tag}ended`;
export const eventLogKey = (tag: string): string => `${tag}events`;
export const tenantKey = (tag: string, tenantId: string): string => `${tag}t:${tenantId}`;
/** The partition's tenants, a sorted set of ids scored by creation time in ms. */
export const tenantIndexKey = (tag: string): string => `${tag}tenants`;
export const budgetKey = (tag: string, unit: string, scope: string): string => `${tag}b:${unit}:${scope}`;
/** The tenant's budgets, a sorted set of `scope unit` members, all scores 0. */
export const budgetIndexKey = (tag: string, tenantId: string): string => `${tag}budgets:${tenantId}`;
/** The audit log, a stream. */
export const auditLogKey = (tag: string): string => `${tag}audit`;
/** The tenants whose closing is not yet carried through to all that they own: a hash from the tenant to who closed it. */
export const closingKey = (tag: string): string => `${tag}closing`;
export const apiKeyKey = (tag: string, keyId: string): string => `${tag}k:${keyId}`;
/** From the SHA-256 of a secret (base64url) to its key id. */
export const apiKeyHashKey = (tag: string, secretHash: string): string => `${tag}kh:${secretHash}`;
/** The tenant's API keys, a sorted set of key ids scored by creation time in ms. */
export const apiKeyIndexKey = (tag: string, tenantId: string): string => `${tag}keys:${tenantId}`;
export const policyKey = (tag: string, policyId: string): string => `${tag}p:${policyId}`;
/** The tenant's policies, a sorted set of policy ids scored by creation time in ms. */
export const policyIndexKey = (tag: string, tenantId: string): string => `${tag}policies:${tenantId}`;
/** From the name of a tenant's policy to its id, a hash. */
export const policyNameKey = (tag: string, tenantId: string): string => `${tag}pn:${tenantId}`;
/** From a scope pattern to the tenant's active policies with it, a hash. */
export const policyPatternKey = (tag: string, tenantId: string): string => `${tag}pp:${tenantId}`;

/**
 * The record of one idempotent operation. The caller's key comes last, because it may hold any character;
 * everything before it has a closed charset, so two different triples never share a name.
 */
export const idempotencyKey = {
  reserve: (tag: string, tenantId: string, key: string): string => `${tag}i:r:${tenantId}|${key}`,
  commit: (tag: string, tenantId: string, reservationId: string, key: string): string =>
    `${tag}i:c:${tenantId}|${reservationId}|${key}`,
  release: (tag: string, tenantId: string, reservationId: string, key: string): string =>
    `${tag}i:l:${tenantId}|${reservationId}|${key}`,
  extend: (tag: string, tenantId: string, reservationId: string, key: string): string =>
    `${tag}i:x:${tenantId}|${reservationId}|${key}`,
  decide: (tag: string, tenantId: string, key: string): string => `${tag}i:d:${tenantId}|${key}`,
  directDebit: (tag: string, tenantId: string, key: string): string => `${tag}i:e:${tenantId}|${key}`,
  fund: (tag: string, unit: string, scope: string, key: string): string => `${tag}i:f:${unit}|${scope}|${key}`,
};

/** Who sweeps the partition: a token that lapses by itself. */
export const sweepLeaseKey = (tag: string): string => `${tag}lease`;
/** The instances that sweep, a sorted set scored by when their announcement lapses in ms; and what each tells of itself, a hash. */
export const sweepInstancesKey = (): string => '{holdfast}instances';
export const sweepReportsKey = (): string => '{holdfast}sweepers';

/** What this deployment was created with: partitions and schema version. Its own slot, read at boot only. */
export const metaKey = (): string => '{holdfast}meta';

/** The pub/sub channel on which a revoked key's secret hash is announced, so that every instance forgets it at once. */
export const keyRevokedChannel = (): string => 'holdfast:key-revoked';
