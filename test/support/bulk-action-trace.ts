import { hash } from 'node:crypto';
import { fingerprintOf } from '../../src/ledger/fingerprint.js';
import { bulkActionKey, budgetKey, tagOfWebhookId, tenantKey, webhookKey } from '../../src/redis/keyspace.js';
import type { ScriptRegistry } from '../../src/redis/scripts.js';
import { RETENTION_MS } from './ledger-client.js';
import type { StoredRecords } from './stored-records.js';

const KEEP_MS = 900_000;
const PARTITIONS = 64;
const TRACE = `${'a'.repeat(32)}-01`;

/**
 * What a process leaves behind when it dies in the middle of a bulk action: its claim, written as the service
 * writes it, and some of the changes.
 */
export class BulkActionTrace {
  constructor(
    private readonly scripts: ScriptRegistry,
    private readonly stored: StoredRecords,
    readonly requestId: string,
    readonly correlation: string,
  ) {}

  async begin(
    kind: 'tenants' | 'budgets' | 'webhooks',
    request: { action: string; idempotency_key: string; filter: object },
    rows: readonly string[],
  ): Promise<void> {
    const { idempotency_key: key, ...rest } = request;
    const record = bulkActionKey(
      this.stored.tagOf('__system__'),
      `${kind}:${hash('sha256', key, 'base64url')}`,
    );
    await this.scripts.run(
      'begin_bulk_action',
      [record],
      [fingerprintOf(rest), KEEP_MS, this.correlation, this.requestId, TRACE, rows.join(','), 1],
    );
  }

  async changeWebhooks(ids: readonly string[], action: string): Promise<void> {
    for (const id of ids) {
      const key = webhookKey(tagOfWebhookId(id, PARTITIONS) ?? '', id);
      await this.scripts.run('bulk_webhook', [key], [id, action, ...this.origin('admin')]);
    }
  }

  async changeTenants(ids: readonly string[], status: string): Promise<void> {
    for (const id of ids) {
      const key = tenantKey(this.stored.tagOf(id), id);
      await this.scripts.run('bulk_tenant', [key], [id, status, ...this.origin('admin')]);
    }
  }

  /** Credits a tenant's budgets in TOKENS. */
  async creditBudgets(tenantId: string, scopes: readonly string[], amount: number): Promise<void> {
    for (const scope of scopes) {
      const key = budgetKey(this.stored.tagOf(tenantId), 'TOKENS', scope);
      await this.scripts.run(
        'bulk_budget',
        [key],
        [
          tenantId,
          scope,
          'TOKENS',
          'CREDIT',
          amount,
          '',
          '',
          ...this.origin('admin_on_behalf_of'),
          RETENTION_MS,
        ],
      );
    }
  }

  private origin(actor: string): [number, string, string, string, string, string] {
    return [KEEP_MS, this.correlation, actor, '', this.requestId, TRACE];
  }
}
