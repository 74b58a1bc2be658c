import { setTimeout as delay } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { ConcurrencyLimiter, lanesKey, StoreUnavailable } from '../../redis/index.js';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import { AttemptPostponed, Attempts, givenUp } from './attempts.js';
import { DeliveryStore } from './delivery-store.js';
import { type Delivery, laneOf, type Verdict } from './delivery.js';
import type { DispatchPartition } from './dispatch-partition.js';
import { Lane, LANE_PAGE } from './lane.js';
import { RetryQueue } from './retry-queue.js';
import { Settlement } from './settlement.js';

/** A first attempt that takes longer than this makes its endpoint a slow one until the next. */
const SLOW_MS = 1000;
/** Attempts of one subscription at the same time: it has a lane for each tenant. */
const PER_SUBSCRIPTION = 32;
const PAUSE_MS = 250;
/** Deliveries that are kept at hand in all lanes together, a few kilobytes each. */
const KEPT = 20_000;

/**
 * First attempts, in order: each lane strictly one after the other, lanes side by side. So an endpoint that hangs delays its own lane
 * only. An attempt that failed is handed to the retries before it leaves the lane, and nothing leaves it before it is settled, so a crash
 * at any moment repeats deliveries and loses none. Only successes are settled while the next attempt is under way already.
 */
@Injectable()
export class Lanes {
  readonly slots: ConcurrencyLimiter;
  private readonly lanes = new Map<string, Lane>();
  private readonly pumps = new Set<Promise<void>>();

  constructor(
    private readonly store: DeliveryStore,
    private readonly attempts: Attempts,
    private readonly settlement: Settlement,
    private readonly retries: RetryQueue,
    @Inject(CONFIG) config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.slots = new ConcurrencyLimiter({ total: config.webhookConcurrency, perOwner: PER_SUBSCRIPTION });
  }

  /** Deliveries that wait, as far as this process knows. */
  get waiting(): number {
    return [...this.lanes.values()].reduce((sum, { left }) => sum + left, 0);
  }

  /** When the oldest of the deliveries that wait was made, by Redis' clock. */
  get oldestMs(): number {
    return [...this.lanes.values()].reduce(
      (oldest, { ready }) => Math.min(oldest, ready[0]?.createdMs ?? oldest),
      Number.POSITIVE_INFINITY,
    );
  }

  /** Whether first attempts of a partition are under way. */
  isBusy(partition: DispatchPartition): boolean {
    return [...this.lanes.values()].some(
      (lane) => lane.running && lane.partition.number === partition.number,
    );
  }

  /** Finds the lanes of a partition that others filled: a dispatcher before this one, or a replay. @throws StoreUnavailable */
  async find(partition: DispatchPartition): Promise<void> {
    for (const name of await this.store.lanesOf(partition.tag)) {
      const known = this.lanes.get(keyOf(partition, name));
      if (known === undefined || known.partition !== partition) {
        const lane = this.laneOf(partition, name);
        lane.forget();
        this.start(lane);
      }
    }
  }

  /** Deliveries that were just queued. */
  add(partition: DispatchPartition, deliveries: readonly Delivery[]): void {
    let room = KEPT - [...this.lanes.values()].reduce((sum, { ready }) => sum + ready.length, 0);
    for (const delivery of deliveries) {
      const name = laneOf(delivery);
      const known = this.lanes.get(keyOf(partition, name));
      const lane = known ?? this.laneOf(partition, name);
      if (known === undefined) {
        // The lanes of the partition were all found before its first event was queued, so this one was empty.
        lane.more = false;
      }
      lane.add(delivery, room > 0);
      room -= 1;
      this.start(lane);
    }
  }

  /** Begins nothing any more; what is under way goes on. */
  close(): void {
    this.slots.close();
  }

  /** Resolves when nothing is under way any more. */
  async idle(): Promise<void> {
    await Promise.all(this.pumps);
  }

  private laneOf(partition: DispatchPartition, name: string): Lane {
    const key = keyOf(partition, name);
    const known = this.lanes.get(key);
    if (known !== undefined) {
      known.partition = partition;
      return known;
    }
    const [subscriptionId = '', ...tenant] = name.split(':');
    const lane = new Lane(name, subscriptionId, tenant.join(':'), partition);
    this.lanes.set(key, lane);
    return lane;
  }

  /** One pump at most for a lane, however often it is taken and lost. */
  private start(lane: Lane): void {
    if (lane.running) {
      return;
    }
    lane.running = true;
    const pump = this.pump(lane).finally(() => {
      lane.running = false;
      this.pumps.delete(pump);
      if (!lane.partition.active || (lane.ready.length === 0 && !lane.more)) {
        this.lanes.delete(keyOf(lane.partition, lane.name));
      } else if (!this.slots.isClosed) {
        this.start(lane);
      }
    });
    this.pumps.add(pump);
  }

  /** Never rejects. */
  private async pump(lane: Lane): Promise<void> {
    for (let isOver = false; !isOver;) {
      try {
        isOver = await this.step(lane);
      } catch (error) {
        this.tell(lane, error);
        await lane.settled().catch((further: unknown) => this.tell(lane, further));
        lane.forget();
        await delay(PAUSE_MS * (1 + Math.random()), undefined, { ref: false });
      }
    }
  }

  /** An outage is told once by the connection, and what is postponed is counted. */
  private tell(lane: Lane, error: unknown): void {
    if (!(error instanceof StoreUnavailable || error instanceof AttemptPostponed)) {
      this.logger.error(
        { err: error, lane: lane.name },
        'a delivery could not be attempted; it is tried again',
      );
    }
  }

  /** @returns whether there is nothing left to do. */
  private async step(lane: Lane): Promise<boolean> {
    const isOn = lane.partition.active && !this.slots.isClosed;
    const [first] = lane.ready;
    if (isOn && first !== undefined) {
      await this.turn(lane, first);
      return false;
    }
    // What is still in Redis must not be read before all that is done is out of it.
    await lane.settled();
    if (isOn && lane.more && lane.ready.length === 0) {
      await this.read(lane);
    }
    return !isOn || (lane.ready.length === 0 && !lane.more);
  }

  private async read(lane: Lane): Promise<void> {
    lane.beginReading();
    const refs = await this.store.refsOf(lane.partition.tag, lane.name, LANE_PAGE);
    const deliveries = await this.store.read(
      {
        tag: lane.partition.tag,
        partition: lane.partition.code,
        tenant: lane.tenant,
        subscriptionId: lane.subscriptionId,
      },
      refs,
    );
    lane.endReading(deliveries, refs.length < LANE_PAGE);
  }

  private async turn(lane: Lane, delivery: Delivery): Promise<void> {
    const claim = { owner: lane.subscriptionId, slow: lane.slow };
    if (!this.slots.tryTake(claim) && (await this.slots.take(claim)) !== 'taken') {
      return;
    }
    const began = performance.now();
    let verdict: Verdict;
    try {
      verdict = delivery.ended
        ? givenUp('event_not_found')
        : await this.attempts.take(delivery, this.store.clock.nowMs());
    } finally {
      this.slots.giveBack(claim);
      lane.slow = performance.now() - began > SLOW_MS;
    }
    if (verdict.outcome === 'RETRYING') {
      await this.retries.plan(delivery, verdict.retryInMs);
    }
    lane.shift(this.settlement.settle(delivery, verdict));
    if (verdict.outcome !== 'SUCCESS' || !lane.mayGoOn) {
      await lane.settled();
    }
  }
}

function keyOf({ tag }: DispatchPartition, name: string): string {
  return lanesKey(tag) + name;
}
