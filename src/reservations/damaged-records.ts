import { Inject, Injectable } from '@nestjs/common';
import { LOGGER, type Logger } from '../logging/index.js';
import { ReservationMetrics } from './reservation.metrics.js';

/** Reservations whose damage is in the log already; beyond so many it may be told again. */
const MOST_TOLD = 10_000;

/** Says that a reservation's record is damaged: in a counter each time that it is read, and once in the log. */
@Injectable()
export class DamagedRecords {
  private readonly told = new Set<string>();

  constructor(
    private readonly metrics: ReservationMetrics,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  report(reservationId: string, reason: string): void {
    this.metrics.unreadable(reason);
    const name = `${reservationId} ${reason}`;
    if (this.told.has(name)) {
      return;
    }
    if (this.told.size === MOST_TOLD) {
      this.told.clear();
    }
    this.told.add(name);
    this.logger.warn(
      { reservation_id: reservationId, reason },
      'the record of a reservation is damaged; what can be known of it is shown',
    );
  }
}
