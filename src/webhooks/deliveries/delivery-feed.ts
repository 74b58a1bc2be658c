import { Injectable } from '@nestjs/common';
import { mergedPage } from '../../governance/listing/index.js';
import { MetricsRegistry, type LabelledCounter } from '../../metrics/index.js';
import { RedisService } from '../../redis/index.js';
import type { DeliveryPlace, StoredDelivery } from './delivery.js';
import { DeliverySource, isBefore, type DeliveryQuestion } from './delivery-source.js';

/** Records that one page may cost: about a fifth of a second of Redis' time, in slices of a millisecond. */
const EXAMINED_A_PAGE = 50_000;
/** Rows that a partition has in store while many are merged. */
const ROWS_A_RUN_MERGED = 8;

export interface DeliveryPage {
  readonly rows: readonly StoredDelivery[];
  /** Behind which the next page begins; undefined at the end. There need not be a delivery that matches. */
  readonly next: DeliveryPlace | undefined;
}

/**
 * A subscription's deliveries, newest first. They stand with their events: those of a tenant in its own partition, and those of a
 * subscription to everybody's events in all of them, which are merged. A page whose filters let little pass ends early.
 */
@Injectable()
export class DeliveryFeed {
  private readonly cuts: LabelledCounter;

  constructor(
    private readonly redis: RedisService,
    metrics: MetricsRegistry,
  ) {
    this.cuts = metrics.counter({
      name: 'holdfast_webhook_delivery_pages_cut_total',
      help: 'Pages of webhook deliveries that ended early because so many did not match.',
    });
  }

  /** @param partitions where the subscription's events are @throws StoreUnavailable */
  async page(
    question: DeliveryQuestion,
    partitions: readonly number[],
    limit: number,
    after: DeliveryPlace | undefined,
    examineMost = EXAMINED_A_PAGE,
  ): Promise<DeliveryPage> {
    const rowsARun = partitions.length === 1 ? limit + 1 : Math.min(limit + 1, ROWS_A_RUN_MERGED);
    const sources = partitions.map(
      (partition) => new DeliverySource(this.redis, partition, question, rowsARun, after),
    );
    const page = await mergedPage<StoredDelivery, DeliveryPlace>(
      sources.map((source) => () => source.readOn()),
      { placeOf: (row) => row, isBefore, limit, examineMost },
    );
    if (page.isCut) {
      this.cuts.inc();
    }
    return page;
  }
}
