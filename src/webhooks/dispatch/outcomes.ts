import { Inject, Injectable } from '@nestjs/common';
import { outcomesKey, RedisService, tagOfWebhookId, webhookKey } from '../../redis/index.js';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import { deliveryIdOf } from './delivery-id.js';
import type { DeliveryAddress } from './delivery.js';
import { DispatchMetrics } from './dispatch.metrics.js';

/** A subscription's bookkeeping is written at most so often while all goes well. */
const QUIET_MS = 1000;

interface Book {
  /** What is still to be written; a success outweighs a mere trigger. */
  pending: 'success' | 'triggered' | undefined;
  writtenAt: number;
  /** Failures in a row, as far as this process wrote them. */
  failures: number;
  /** Writes of one subscription go one after the other, in the order of what happened. */
  writing: Promise<void>;
}

/**
 * Tells subscriptions what became of their deliveries. Successes are put together, so that a busy endpoint costs one write a second;
 * a failure is written at once, and stays in the partition's index of outcomes until it is, so that none is forgotten by a crash.
 */
@Injectable()
export class Outcomes {
  private readonly books = new Map<string, Book>();

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: DispatchMetrics,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  succeeded(delivery: DeliveryAddress): void {
    this.note(delivery.subscriptionId, 'success');
  }

  triggered(delivery: DeliveryAddress): void {
    this.note(delivery.subscriptionId, 'triggered');
  }

  /** Counts a delivery that was given up after its last attempt. Never rejects: what cannot be written is left for `leftOver`. */
  async failed(delivery: DeliveryAddress, trace: string): Promise<void> {
    const { subscriptionId } = delivery;
    const book = this.bookOf(subscriptionId);
    const earlier = book.pending;
    book.pending = undefined;
    if (earlier !== undefined) {
      this.write(subscriptionId, book, earlier);
    }
    await this.inOrder(book, async () => {
      const [word, detail] = await this.record(subscriptionId, 'failure', deliveryIdOf(delivery), trace);
      await this.redis.client.zrem(outcomesKey(delivery.tag), delivery.ref);
      book.failures = word === 'RECORDED' ? Number(detail) : book.failures;
      if (word === 'DISABLED') {
        this.metrics.autoDisabled(detail ?? '');
        this.logger.warn(
          { subscription_id: subscriptionId, tenant_id: detail },
          'a webhook subscription failed too often in a row and is disabled',
        );
      }
    });
  }

  /** Writes what was put together. Called about once a second, and before the process ends. */
  async flush(): Promise<void> {
    const now = performance.now();
    for (const [subscriptionId, book] of this.books) {
      if (book.pending !== undefined) {
        this.write(subscriptionId, book, book.pending);
      } else if (book.failures === 0 && now - book.writtenAt > 60 * QUIET_MS) {
        this.books.delete(subscriptionId);
      }
    }
    await Promise.all([...this.books.values()].map(({ writing }) => writing));
  }

  private note(subscriptionId: string, what: 'success' | 'triggered'): void {
    const book = this.bookOf(subscriptionId);
    book.pending = what === 'success' ? 'success' : (book.pending ?? 'triggered');
    if (book.pending === 'success' && (book.failures > 0 || performance.now() - book.writtenAt >= QUIET_MS)) {
      this.write(subscriptionId, book, 'success');
    }
  }

  private write(subscriptionId: string, book: Book, what: 'success' | 'triggered'): void {
    book.pending = undefined;
    book.writtenAt = performance.now();
    void this.inOrder(book, async () => {
      try {
        const [, failures] = await this.record(subscriptionId, what, '', '');
        book.failures = Number(failures ?? 0);
      } catch (error) {
        book.pending ??= what;
        throw error;
      }
    });
  }

  private inOrder(book: Book, work: () => Promise<void>): Promise<void> {
    book.writing = book.writing.then(work).catch((error: unknown) => {
      this.logger.debug(
        { err: error },
        'an outcome could not be written to its subscription; it is tried again',
      );
    });
    return book.writing;
  }

  private async record(
    subscriptionId: string,
    outcome: string,
    deliveryId: string,
    trace: string,
  ): Promise<string[]> {
    const tag = tagOfWebhookId(subscriptionId, this.redis.partitions);
    if (tag === undefined) {
      return ['GONE'];
    }
    return this.redis.scripts.run(
      'record_delivery_outcome',
      [webhookKey(tag, subscriptionId)],
      [subscriptionId, outcome, deliveryId, trace],
    );
  }

  private bookOf(subscriptionId: string): Book {
    let book = this.books.get(subscriptionId);
    if (book === undefined) {
      book = {
        pending: undefined,
        writtenAt: Number.NEGATIVE_INFINITY,
        failures: 0,
        writing: Promise.resolve(),
      };
      this.books.set(subscriptionId, book);
    }
    return book;
  }
}
