import { Injectable } from '@nestjs/common';
import type { Caller } from '../../auth/index.js';
import { RedisService, reservationKey } from '../../redis/index.js';
import { traceText, type Operation } from '../operation.js';
import { ReservationStore } from '../reservation-store.js';
import { detailOf, recordOf, type ReservationDetail } from './reservation-view.js';

/** GET /v1/reservations/{id}. */
@Injectable()
export class QueryService {
  constructor(
    private readonly redis: RedisService,
    private readonly store: ReservationStore,
  ) {}

  /** An operator reads anybody's. @throws Refusal NOT_FOUND, FORBIDDEN, RESERVATION_EXPIRED. An overdue hold is expired by this read. */
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
    const [, ...fields] = this.store.settled(answer, 'FOUND');
    return detailOf(reservationId, recordOf(fields));
  }
}
