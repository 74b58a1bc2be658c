import { hash } from 'node:crypto';
import { fingerprintOf } from '../../src/ledger/fingerprint.js';
import { bulkActionKey, tagOfWebhookId, webhookKey } from '../../src/redis/keyspace.js';
import type { ScriptRegistry } from '../../src/redis/scripts.js';
import type { StoredRecords } from './stored-records.js';

const KEEP_MS = 900_000;
const PARTITIONS = 64;
const TRACE = `${'a'.repeat(32)}-01`;

/** Leaves what a process leaves that died in the middle of a bulk action on webhooks. */
export class BulkActionTrace {
  constructor(
    private readonly scripts: ScriptRegistry,
    private readonly stored: StoredRecords,
  ) {}

  async begin(
    request: { action: string; idempotency_key: string; filter: object },
    requestId: string,
    correlation: string,
    ids: readonly string[],
  ): Promise<void> {
    const { idempotency_key: key, ...rest } = request;
    const record = bulkActionKey(
      this.stored.tagOf('__system__'),
      `webhooks:${hash('sha256', key, 'base64url')}`,
    );
    await this.scripts.run(
      'begin_bulk_action',
      [record],
      [fingerprintOf(rest), KEEP_MS, correlation, requestId, TRACE, ids.join(',')],
    );
  }

  async change(
    ids: readonly string[],
    action: string,
    requestId: string,
    correlation: string,
  ): Promise<void> {
    for (const id of ids) {
      const key = webhookKey(tagOfWebhookId(id, PARTITIONS) ?? '', id);
      await this.scripts.run(
        'bulk_webhook',
        [key],
        [id, action, KEEP_MS, correlation, 'admin', '', requestId, TRACE],
      );
    }
  }
}
