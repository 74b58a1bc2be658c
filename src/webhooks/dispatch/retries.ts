import { Injectable } from '@nestjs/common';
import { AttemptPostponed, Attempts } from './attempts.js';
import { DeliveryStore } from './delivery-store.js';
import type { DeliveryAddress } from './delivery.js';
import { Lanes } from './lanes.js';
import { RetryLater, RetryQueue } from './retry-queue.js';
import { Settlement } from './settlement.js';

/** The queue counts by each process' own clock; what is due earlier than this by Redis' clock is not sent away once more. */
const EARLY_MS = 25;
/** When a delivery's first attempt is not settled yet, or its endpoint has enough attempts under way. */
const SOON_MS = 500;

/** One retry of one delivery, whichever instance it falls to. */
@Injectable()
export class Retries {
  constructor(
    private readonly store: DeliveryStore,
    private readonly attempts: Attempts,
    private readonly settlement: Settlement,
    private readonly lanes: Lanes,
    private readonly queue: RetryQueue,
  ) {}

  start(): void {
    this.queue.start((delivery) => this.run(delivery));
  }

  /** @throws RetryLater when there is to be another one; anything else when this one could not be made. */
  private async run(address: DeliveryAddress): Promise<void> {
    const { delivery, status, dueInMs } = await this.store.readRetry(address);
    if (delivery.ended) {
      return;
    }
    if (status === 'PENDING') {
      throw new RetryLater(SOON_MS);
    }
    if (dueInMs > EARLY_MS) {
      throw new RetryLater(dueInMs);
    }
    const claim = { owner: address.subscriptionId };
    const { slots } = this.lanes;
    if (!slots.tryTake(claim)) {
      throw new RetryLater(SOON_MS * (1 + Math.random()));
    }
    let verdict;
    try {
      verdict = await this.attempts.take(delivery, this.store.clock.nowMs());
    } catch (error) {
      throw error instanceof AttemptPostponed ? new RetryLater(SOON_MS * (1 + Math.random())) : error;
    } finally {
      slots.giveBack(claim);
    }
    await this.settlement.settle(delivery, verdict);
    if (verdict.outcome === 'RETRYING') {
      throw new RetryLater(verdict.retryInMs);
    }
  }
}
