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
    this.redis.onOutage((outageMs) => {
      this.emitting = this.emitting.then(() => this.emit(outageMs));
    });
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.emitting;
  }

  /** Never rejects. */
  async emit(outageMs: number): Promise<void> {
    try {
      const { status } = await this.redis.scripts.call(
        'emit_store_outage',
        { eventLog: eventLogKey(TAG), outage: storeOutageKey(TAG) },
        { outageMs: Math.ceil(outageMs) },
      );
      this.counts.outages.inc({ outcome: status === 'EMITTED' ? 'told' : 'same' });
    } catch (error) {
      this.counts.outages.inc({ outcome: 'failed' });
      this.logger.warn({ err: error }, 'the event of a Redis outage could not be written');
    }
  }
}
