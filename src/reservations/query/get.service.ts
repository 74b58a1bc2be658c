import { Injectable } from '@nestjs/common';
import type { Caller } from '../../auth/index.js';
import { ExpiryMetrics } from '../../expiry/index.js';
import { RedisService, reservationKey } from '../../redis/index.js';
import { traceText } from '../../wire/index.js';
import type { Operation } from '../admission.js';
import { ReservationStore } from '../reservation-store.js';
import { DamagedRecords } from '../script-refusals.js';
import { detailOf, recordOf, type ReservationDetail } from './reservation-view.js';

/** GET /v1/reservations/{id}. */
@Injectable()
export class GetService {
  constructor(
    private readonly redis: RedisService,
    private readonly store: ReservationStore,
    private readonly expiry: ExpiryMetrics,
    private readonly damaged: DamagedRecords,
  ) {}

  /**
   * An operator may read any tenant's reservation. This read expires an overdue hold. Of a damaged record it returns the readable part; a
   * damaged record that is still live goes into quarantine, for an operator to decide on.
   * @throws Refusal NOT_FOUND, FORBIDDEN, RESERVATION_EXPIRED.
   */
  async get(operation: Operation<Caller>, reservationId: string): Promise<ReservationDetail> {
    const { caller, trace } = operation;
    const tag = this.store.tagOf(reservationId);
    await this.store.requireInScope(operation, tag, reservationId);
    const owner = caller.kind === 'tenant' ? caller.tenantId : '';
    const answer = await this.redis.scripts.run(
      'get_reservation',
      [reservationKey(tag, reservationId)],
      [owner, reservationId, this.store.retentionMs, trace.requestId, traceText(trace)],
    );
    const [, defect = '', quarantined = '', ...fields] = this.store.settled(answer, 'FOUND', reservationId);
    const record = recordOf(fields);
    const report = (reason: string): void => this.damaged.report(reservationId, reason);
    if (defect !== '') {
      report(defect);
    }
    if (quarantined !== '') {
      this.expiry.record('access', ['QUARANTINED', quarantined, record.get('tn') ?? ''], undefined);
    }
    return detailOf(reservationId, record, report);
  }
}
