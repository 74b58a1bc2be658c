import { Injectable } from '@nestjs/common';
import { type Caller, seesEvidence } from '../../auth/index.js';
import { EvidenceService } from '../../evidence/index.js';
import { countExpiry } from '../../expiry/index.js';
import { RedisService, reservationKey, FIELD } from '../../redis/index.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import { traceText } from '../../wire/index.js';
import type { Operation } from '../admission.js';
import { ReservationScripts } from '../reservation-scripts.js';
import { DamagedRecords } from '../script-refusals.js';
import { detailOf, type ReservationDetail, withEvidence } from './reservation-view.js';

/** GET /v1/reservations/{id}. */
@Injectable()
export class GetService {
  constructor(
    private readonly redis: RedisService,
    private readonly calls: ReservationScripts,
    private readonly metrics: MetricsRegistry,
    private readonly damaged: DamagedRecords,
    private readonly evidence: EvidenceService,
  ) {}

  /**
   * An operator may read any tenant's reservation. This read expires an overdue hold. Of a damaged record it returns the readable part; a
   * damaged record that is still live goes into quarantine, for an operator to decide on.
   * @throws Refusal NOT_FOUND, FORBIDDEN, RESERVATION_EXPIRED.
   */
  async get(operation: Operation<Caller>, reservationId: string): Promise<ReservationDetail> {
    const { caller, trace } = operation;
    const tag = this.calls.tagOf(reservationId);
    await this.calls.requireInScope(operation, tag, reservationId);
    const owner = caller.kind === 'tenant' ? caller.tenantId : '';
    const reply = await this.redis.scripts.call(
      'get_reservation',
      { reservation: reservationKey(tag, reservationId) },
      {
        tenantId: owner,
        reservationId,
        retentionMs: this.calls.retentionMs,
        requestId: trace.requestId,
        trace: traceText(trace),
      },
    );
    const { defect, quarantined, record } = this.calls.settled(reply, 'FOUND', reservationId);
    const report = (reason: string): void => this.damaged.report(reservationId, reason);
    if (defect !== undefined) {
      report(defect);
    }
    if (quarantined !== undefined) {
      const outcome = {
        word: 'QUARANTINED',
        detail: quarantined,
        secondDetail: record.get(FIELD.tenant) ?? '',
      };
      countExpiry(this.metrics, 'access', outcome);
    }
    const detail = detailOf(reservationId, record, report);
    return this.evidence.isIssuing && seesEvidence(caller)
      ? withEvidence(detail, record.get(FIELD.reserve_evidence), record.get(FIELD.end_evidence), (id) =>
          this.evidence.referenceTo(id),
        )
      : detail;
  }
}
