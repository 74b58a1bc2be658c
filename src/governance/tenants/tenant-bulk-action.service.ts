import { Inject, Injectable } from '@nestjs/common';
import {
  BulkActions,
  type BulkRun,
  type Changed,
  FAILED_ROW,
  requireFilter,
  type RowFailure,
} from '../../bulk/index.js';
import { Records, RedisService, StoreUnavailable, SYSTEM_OWNER, tenantKey } from '../../redis/index.js';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import { fieldOf, type Origin } from '../../wire/index.js';
import { NOT_CLOSABLE, TenantClosing } from './tenant-closing.js';
import type { TenantBulkActionDto, TenantStatus } from './tenant.dto.js';
import { matchesTenant, TENANT_DEFAULTS } from './tenants.service.js';

/** A request that closes tenants works on what they own for at most this long, then leaves the rest to the janitor. */
const CLOSING_BUDGET_MS = 15_000;
/** The most of it that one tenant gets. */
const TENANT_BUDGET_MS = 5000;

const TARGETS: Readonly<Record<TenantBulkActionDto['action'], TenantStatus>> = {
  SUSPEND: 'SUSPENDED',
  REACTIVATE: 'ACTIVE',
  CLOSE: 'CLOSED',
};

const FAILURES: Readonly<Record<'NOT_FOUND' | 'INVALID_TRANSITION', string>> = {
  NOT_FOUND: 'there is no such tenant',
  INVALID_TRANSITION: 'the tenant is closed, which is final',
};

const STILL_CLOSING: RowFailure = {
  error_code: 'CLOSE_INCOMPLETE',
  message: 'the tenant is closed; Holdfast is still closing some of what it owns',
};
const UNCLOSED: RowFailure = { error_code: 'INTERNAL_ERROR', message: NOT_CLOSABLE };

/** POST /v1/admin/tenants/bulk-action. */
@Injectable()
export class TenantBulkActionService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly closing: TenantClosing,
    private readonly bulk: BulkActions,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  /**
   * All tenants get their new status first, so that every closed one is blocked at once. Then what the closed ones own is closed.
   * @returns the JSON of a TenantBulkActionResponse
   * @throws Refusal INVALID_REQUEST (an empty filter), COUNT_MISMATCH, IDEMPOTENCY_MISMATCH; TooManyMatched;
   * StoreUnavailable, after which a retry continues.
   */
  async apply(request: TenantBulkActionDto, origin: Origin): Promise<string> {
    const { filter } = request;
    requireFilter(filter, 'every tenant');
    return this.bulk.apply({
      kind: 'tenants',
      request,
      origin,
      auditedActor: 'admin_on_behalf_of',
      owner: SYSTEM_OWNER,
      // Reads only what the filter needs: a record that is damaged elsewhere fails its own row, and no other.
      match: (found) =>
        this.records.eachTenant((fields) => {
          const tenant = this.records.whole('tenant', fields, () => ({
            tenant_id: fieldOf(fields, 'tenant_id'),
            name: fieldOf(fields, 'name'),
            status: fieldOf(fields, 'status'),
            parent_tenant_id: fields.get('parent_tenant_id'),
            observe_mode: fields.get('observe_mode') ?? TENANT_DEFAULTS.observeMode,
          }));
          if (tenant !== undefined && matchesTenant(filter, tenant)) {
            found(tenant.tenant_id);
          }
        }),
      change: (tenantId, run) => this.change(tenantId, TARGETS[request.action], run),
      ...(request.action === 'CLOSE' ? { complete: (tenantIds) => this.closeOwned(tenantIds) } : {}),
    });
  }

  private async change(tenantId: string, status: TenantStatus, run: BulkRun): Promise<Changed> {
    const reply = await this.redis.scripts.call(
      'bulk_tenant',
      { tenant: tenantKey(this.records.tagOfTenant(tenantId), tenantId) },
      { ...run, tenantId, status },
    );
    switch (reply.status) {
      case 'SUCCEEDED':
        return 'succeeded';
      case 'SKIPPED':
        return { skipped: reply.reason };
      default:
        return { failed: { error_code: reply.status, message: FAILURES[reply.status] } };
    }
  }

  /** @returns the tenants that own something that is not closed yet */
  private async closeOwned(tenantIds: readonly string[]): Promise<Map<string, RowFailure>> {
    const deadline = performance.now() + CLOSING_BUDGET_MS;
    const incomplete = new Map<string, RowFailure>();
    for (const tenantId of tenantIds) {
      const leftMs = deadline - performance.now();
      const failure =
        leftMs > 0 ? await this.closeOne(tenantId, Math.min(leftMs, TENANT_BUDGET_MS)) : STILL_CLOSING;
      if (failure !== undefined) {
        incomplete.set(tenantId, failure);
      }
    }
    return incomplete;
  }

  private async closeOne(tenantId: string, withinMs: number): Promise<RowFailure | undefined> {
    try {
      const { complete, failed } = await this.closing.closeOwned(tenantId, withinMs);
      return complete ? undefined : failed.length > 0 ? UNCLOSED : STILL_CLOSING;
    } catch (error) {
      if (error instanceof StoreUnavailable) {
        throw error;
      }
      this.logger.error({ err: error, tenant: tenantId }, 'a bulk action could not close what a tenant owns');
      return FAILED_ROW;
    }
  }
}
