import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { eventLogKey, RedisService, storeOutageKey, tagOfPartition } from '../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry } from '../telemetry/index.js';
import { EVENT_METRICS } from './events.metrics.js';

const TAG = tagOfPartition(0);

/** Emits an event for each outage of Redis once it is back. Of several instances, one does. If none survived, there is no event. */
@Injectable()
export class StoreOutages implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly counts = this.metrics.of(EVENT_METRICS);
  private emitting: Promise<void> = Promise.resolve();

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  onApplicationBootstrap(): void {
    this.redis.onOutage((lostAt, restoredAt) => {
      this.emitting = this.emitting.then(() => this.emit(lostAt, restoredAt));
    });
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.emitting;
  }

  /** Takes both ends by performance.now(), and may be late. Never rejects. */
  async emit(lostAt: number, restoredAt: number): Promise<void> {
    try {
      const lostAtMs = await this.redis.clock.ledgerMsAt(lostAt);
      const { status } = await this.redis.scripts.call(
        'emit_store_outage',
        { eventLog: eventLogKey(TAG), outage: storeOutageKey(TAG) },
        { lostAtMs, outageMs: Math.round(restoredAt - lostAt) },
      );
      this.counts.outages.inc({ outcome: status === 'EMITTED' ? 'told' : 'same' });
    } catch (error) {
      this.counts.outages.inc({ outcome: 'failed' });
      this.logger.warn({ err: error }, 'the event of a Redis outage could not be written');
    }
  }
}
