import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  Module,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { eventLogKey, partitionCode, RedisService, storeOutageKey, tagOf } from '../redis/index.js';
import {
  type LabelledCounter,
  LOGGER,
  type Logger,
  MetricsModule,
  MetricsRegistry,
} from '../telemetry/index.js';
import { EventFeed } from './event-feed.js';
import { EventsController } from './events.controller.js';
import { EventsService } from './events.service.js';

const TAG = tagOf(partitionCode(0));

/**
 * Tells of outages of the store once it is back, for while it is away nothing can be told. An outage that only this instance saw is
 * told like any other; one that nobody survived is not told.
 */
@Injectable()
export class StoreOutages implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly outages: LabelledCounter;
  private telling: Promise<void> = Promise.resolve();

  constructor(
    private readonly redis: RedisService,
    metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.outages = metrics.counter({
      name: 'holdfast_store_outages_total',
      help: 'Outages of the store that this instance saw the end of: told as events, told by another instance, or not told.',
      labels: ['outcome'],
    });
  }

  onApplicationBootstrap(): void {
    this.redis.onOutage((outageMs) => {
      this.telling = this.telling.then(() => this.tell(outageMs));
    });
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.telling;
  }

  /** Never rejects. */
  async tell(outageMs: number): Promise<void> {
    try {
      const { status } = await this.redis.scripts.call(
        'emit_store_outage',
        { eventLog: eventLogKey(TAG), outage: storeOutageKey(TAG) },
        { outageMs: Math.ceil(outageMs) },
      );
      this.outages.inc({ outcome: status === 'EMITTED' ? 'told' : 'same' });
    } catch (error) {
      this.outages.inc({ outcome: 'failed' });
      this.logger.warn({ err: error }, 'an outage of the store could not be told as an event');
    }
  }
}

@Module({
  imports: [MetricsModule],
  controllers: [EventsController],
  providers: [EventFeed, EventsService, StoreOutages],
  exports: [EventFeed],
})
export class EventLogModule {}
