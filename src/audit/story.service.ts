import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { ExpiryMetrics } from '../expiry/index.js';
import type { RequestTrace } from '../http/index.js';
import { parseAmount, Refusal } from '../ledger/index.js';
import { RedisService, reservationKey, tagOfReservationId } from '../redis/index.js';
import { recordOf, traceText } from '../reservations/index.js';
import { storyOf } from './reservation-story.js';

const DAY_MS = 86_400_000;
/** What stands before the event in the reply: lua/inspect_reservation.lua. */
const HEAD = 9;

/** GET /ops/reservations/{id}: everything about one reservation, whatever became of it. */
@Injectable()
export class StoryService {
  private readonly retentionMs: number;

  constructor(
    private readonly redis: RedisService,
    private readonly expiry: ExpiryMetrics,
    @Inject(CONFIG) config: HoldfastConfig,
  ) {
    this.retentionMs = config.auditRetentionDays * DAY_MS;
  }

  /** @throws Refusal NOT_FOUND. An overdue hold is expired by this read. */
  async tell(reservationId: string, trace: RequestTrace): Promise<object> {
    const tag = tagOfReservationId(reservationId, this.redis.partitions);
    const reply =
      tag === undefined
        ? ['NOT_FOUND']
        : await this.redis.queries.run(
            'inspect_reservation',
            [reservationKey(tag, reservationId)],
            [reservationId, this.retentionMs, trace.requestId, traceText(trace)],
          );
    if (reply[0] !== 'FOUND') {
      throw new Refusal(
        'NOT_FOUND',
        'there is no such reservation, or its record has gone after the retention',
        { reservation_id: reservationId },
      );
    }
    const [, nowMs, goesAtMs = '', quarantine = '', defect = '', ...rest] = reply;
    const outcome = rest.slice(0, 3);
    if (outcome[0] !== '') {
      this.expiry.record('access', outcome, nowMs);
    }
    const event = HEAD + Number(reply[HEAD - 1]);
    return storyOf({
      nowMs: parseAmount(nowMs),
      reservationId,
      partition: reservationId.slice(4, 6),
      goesAtMs,
      quarantine,
      defect,
      told: recordOf(reply.slice(HEAD, event)),
      record: recordOf(reply.slice(event)),
    });
  }
}
