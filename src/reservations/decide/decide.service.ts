import { Injectable } from '@nestjs/common';
import { fingerprintOf } from '../../ledger/index.js';
import {
  idempotencyKey,
  partitionCode,
  partitionOfTenant,
  RedisService,
  type Reply,
  tagOf,
  tenantKey,
} from '../../redis/index.js';
import { traceText } from '../../wire/index.js';
import { Admission, admissionRefusal, admittedScopes, type Operation, recordFields } from '../admission.js';
import { ReservationStore } from '../reservation-store.js';
import { ReservationMetrics } from '../reservation.metrics.js';
import type { DecideDto } from './decide.dto.js';

export interface Decision {
  /** `ALLOW ...`, `ALLOW_WITH_CAPS ...` or `DENY ...` as lua/ledger/decide.lua documents them. */
  readonly reply: Reply;
  /** Every derived scope, root first, whether it has a budget or not. */
  readonly scopes: readonly string[];
}

/** POST /v1/decide: what a reserve would get right now. It holds nothing and promises nothing. */
@Injectable()
export class DecideService {
  constructor(
    private readonly redis: RedisService,
    private readonly store: ReservationStore,
    private readonly metrics: ReservationMetrics,
    private readonly admission: Admission,
  ) {}

  /**
   * Evaluates the request. The state of a budget or a closed tenant is a decision here, not a refusal.
   * @throws Refusal FORBIDDEN (another tenant, scope filter), IDEMPOTENCY_MISMATCH, UNIT_MISMATCH, UNAUTHORIZED (suspended tenant).
   */
  async decide(operation: Operation, request: DecideDto): Promise<Decision> {
    const { tenantId } = operation.caller;
    try {
      const scopes = admittedScopes(operation.caller, request.subject);
      const reply = await this.run(operation, request, scopes);
      const [decision, freshness, detail] = reply as [string, string, string | undefined];
      if (decision !== 'ALLOW' && decision !== 'ALLOW_WITH_CAPS' && decision !== 'DENY') {
        throw admissionRefusal(reply, request.estimate.unit, scopes);
      }
      const reason = decision === 'DENY' ? (detail as string) : 'OK';
      this.metrics.decided(tenantId, decision, freshness === 'replay' ? 'IDEMPOTENT_REPLAY' : reason);
      return { reply, scopes };
    } catch (error) {
      this.metrics.decideFailed(tenantId, error);
      throw error;
    }
  }

  private run({ caller, trace }: Operation, request: DecideDto, scopes: readonly string[]): Promise<Reply> {
    const { estimate } = request;
    const { tenantId } = caller;
    const tag = tagOf(partitionCode(partitionOfTenant(tenantId, this.redis.partitions)));
    const fields = recordFields(request.subject, request.action, tenantId);
    const fingerprint = fingerprintOf(request);
    return this.admission.decided(() =>
      this.redis.scripts.run(
        'decide',
        [idempotencyKey.decide(tag, tenantId, request.idempotency_key), tenantKey(tag, tenantId)],
        [
          tenantId,
          fingerprint,
          estimate.unit,
          estimate.amount.toString(),
          this.store.idempotencyTtlMs,
          this.store.retentionMs,
          caller.keyId,
          trace.requestId,
          traceText(trace),
          scopes.length,
          ...scopes,
          ...fields,
        ],
      ),
    );
  }
}
