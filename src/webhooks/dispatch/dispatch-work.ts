import { Injectable } from '@nestjs/common';
import { DeliveryStore } from './delivery-store.js';
import { EventReader } from './event-reader.js';
import { Lanes } from './lanes.js';
import { LeftOvers } from './left-overs.js';
import { Outcomes } from './outcomes.js';
import { Retries } from './retries.js';
import { RetryQueue } from './retry-queue.js';

/** What the dispatcher sets going. */
@Injectable()
export class DispatchWork {
  constructor(
    readonly reader: EventReader,
    readonly lanes: Lanes,
    readonly retries: Retries,
    readonly queue: RetryQueue,
    readonly outcomes: Outcomes,
    readonly leftOvers: LeftOvers,
    readonly store: DeliveryStore,
  ) {}
}
