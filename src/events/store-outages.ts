import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { eventLogKey, partitionCode, RedisService, storeOutageKey, tagOf } from '../redis/index.js';
import { type LabelledCounter, LOGGER, type Logger, MetricsRegistry } from '../telemetry/index.js';

const TAG = tagOf(partitionCode(0));

/** Emits an event for each outage of Redis once it is back. Of several instances, one does. If none survived, there is no event. */
@Injectable()
export class StoreOutages implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly outages: LabelledCounter;
  private emitting: Promise<void> = Promise.resolve();

  constructor(
    private readonly redis: RedisService,
    metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.outages = metrics.counter({
      name: 'holdfast_store_outages_total',
      help: 'Outages of Redis that this instance survived, by whether it emitted the event, another instance did, or that failed.',
      labels: ['outcome'],
    });
  }

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
      this.outages.inc({ outcome: status === 'EMITTED' ? 'told' : 'same' });
    } catch (error) {
      this.outages.inc({ outcome: 'failed' });
      this.logger.warn({ err: error }, 'the event of a Redis outage could not be written');
    }
  }
}
