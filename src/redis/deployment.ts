import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Cluster, Redis } from 'ioredis';
import type { Role } from '../config/index.js';
import type { Logger } from '../telemetry/index.js';
import { metaKey } from './meta-key.js';

/**
 * Which ledger this is. The id is made at the first start and kept with the data. With the embedded Redis, DATA_DIR has it, too, in a file
 * that backups leave out: data beside another id or none was copied there. It gets an id of its own, so that nobody takes the copy for the
 * original.
 */
export interface Deployment {
  readonly id: string;
  /** The deployment whose data this was, if it was copied. */
  readonly restoredFrom?: string;
}

const FILE = 'deployment-id';
const [ID, ORIGIN] = ['deployment_id', 'restored_from'];

/** @param dataDir of the embedded Redis; undefined for any other, whose copies nothing can tell */
export async function identifyDeployment(
  client: Redis | Cluster,
  dataDir: string | undefined,
): Promise<Deployment> {
  const made = `dep_${randomBytes(9).toString('base64url')}`;
  let [id, restoredFrom] = await client.hmget(metaKey(), ID, ORIGIN);
  if (id === undefined || id === null) {
    await client.hsetnx(metaKey(), ID, made).catch(unlessFull);
    id = (await client.hget(metaKey(), ID)) ?? made;
  } else if (dataDir !== undefined && readId(dataDir) !== id) {
    // The file first: if the process dies in between, the next start comes here again.
    writeId(dataDir, made);
    await client.hset(metaKey(), ID, made, ORIGIN, id);
    [id, restoredFrom] = [made, id];
  }
  if (dataDir !== undefined && readId(dataDir) !== id) {
    writeId(dataDir, id);
  }
  return { id, ...(restoredFrom && { restoredFrom }) };
}

/** Says what a start on copied data will do to the world outside. */
export function warnOfCopy({ id, restoredFrom }: Deployment, roles: ReadonlySet<Role>, logger: Logger): void {
  if (restoredFrom === undefined) {
    return;
  }
  const sweeps = roles.has('sweeper')
    ? 'expires the reservations that are overdue, also those that the original has settled since'
    : 'expires nothing by itself';
  const sends = roles.has('dispatcher')
    ? 'sends the events of the copy to its webhook subscriptions'
    : 'sends no webhooks';
  logger.warn(
    `this ledger is a copy of deployment ${restoredFrom}, and is deployment ${id} now: it ${sweeps}, and ${sends}; HOLDFAST_ROLES decides`,
  );
}

/** A ledger from before there were ids must start on a full Redis, too. It keeps an id once there is room. */
function unlessFull(error: unknown): void {
  if (!(error instanceof Error && error.message.startsWith('OOM'))) {
    throw error;
  }
}

function readId(dataDir: string): string | undefined {
  try {
    return readFileSync(join(dataDir, FILE), 'utf8').trim();
  } catch {
    return undefined;
  }
}

function writeId(dataDir: string, id: string): void {
  writeFileSync(join(dataDir, FILE), `${id}\n`);
}
