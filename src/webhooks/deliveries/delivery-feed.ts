import { Injectable } from '@nestjs/common';
import { MetricsRegistry, type LabelledCounter } from '../../metrics/index.js';
import { RedisService } from '../../redis/index.js';
import type { DeliveryPlace, StoredDelivery } from './delivery.js';
import { compareDeliveries, DeliverySource, type DeliveryQuestion } from './delivery-source.js';

/** Records that one page may cost: about a fifth of a second of Redis' time, in slices of a millisecond. */
export const EXAMINED_A_PAGE = 50_000;
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
    const sources = partitions.map((partition) => new DeliverySource(this.redis, partition, question, rowsARun, after));
    const rows: StoredDelivery[] = [];
    // One row more than the page holds tells whether there is another page.
    while (rows.length <= limit) {
      const row = take(sources);
      if (row !== undefined) {
        rows.push(row);
        continue;
      }
      const open = sources.filter(({ isOpen }) => isOpen);
      if (open.length === 0) {
        return { rows, next: undefined };
      }
      if (sources.reduce((sum, { examined }) => sum + examined, 0) >= examineMost) {
        this.cuts.inc();
        return { rows, next: open.flatMap(({ reached }) => (reached === undefined ? [] : [reached])).sort(compareDeliveries)[0] };
      }
      await Promise.all(open.map((source) => source.readOn()));
    }
    return { rows: rows.slice(0, limit), next: rows[limit - 1] };
  }
}

/** The next row, or undefined when it is not known yet which one it is, or there is none. */
function take(sources: readonly DeliverySource[]): StoredDelivery | undefined {
  let first: DeliverySource | undefined;
  for (const source of sources) {
    if (source.head !== undefined && (first?.head === undefined || compareDeliveries(source.head, first.head) < 0)) {
      first = source;
    }
  }
  const row = first?.head;
  if (row === undefined || sources.some(({ isOpen, reached }) => isOpen && (reached === undefined || compareDeliveries(reached, row) < 0))) {
    return undefined;
  }
  first?.shift();
  return row;
}
