import { Injectable } from '@nestjs/common';
import { EventFeed, type CyclesEvent } from '../../event-log/index.js';
import { instantMs } from '../../http/index.js';
import { Refusal } from '../../ledger/index.js';
import { SYSTEM_OWNER } from '../../redis/index.js';
import { matches, type DispatchTarget } from '../subscriptions/index.js';
import { MAX_EVENTS, type ReplayDto } from './replay.dto.js';

/** Entries of the event log that one replay looks at: a quarter of a second of Redis' time, in slices of a millisecond. */
const SCAN_LIMIT = 50_000;
const DEFAULT_MAX_EVENTS = 100;

/** Finds what a replay repeats: all of it, or nothing. */
@Injectable()
export class ReplaySelection {
  constructor(private readonly feed: EventFeed) {}

  /**
   * The events of the window that the subscription receives, oldest first: by its selectors and scope filter, and of its owner only.
   * @param scanLimit entries to look at, at most; some more are when partitions are merged
   * @throws Refusal INVALID_REQUEST when the window holds more than `max_events` of them, or more entries than are looked at; StoreUnavailable
   */
  async select(
    target: DispatchTarget,
    request: ReplayDto,
    scanLimit = SCAN_LIMIT,
  ): Promise<readonly CyclesEvent[]> {
    const { max_events: limit = DEFAULT_MAX_EVENTS, event_types: types } = request;
    const { owner } = target;
    const question = {
      direction: 'asc' as const,
      fromMs: instantMs(request.from),
      toMs: instantMs(request.to),
      tenantId: owner === SYSTEM_OWNER ? undefined : owner,
      correlationId: undefined,
      conditions: [],
      matches: (event: CyclesEvent) =>
        (types === undefined || types.includes(event.event_type)) && matches(target, event),
    };
    const { events, next, isCut } = await this.feed.page(question, { limit, after: undefined }, scanLimit);
    if (isCut) {
      throw new Refusal(
        'INVALID_REQUEST',
        `the window holds more than the ${scanLimit} events that one replay looks at; narrow from and to`,
        {
          field: 'from',
          scan_limit: scanLimit,
        },
      );
    }
    if (next !== undefined) {
      throw new Refusal(
        'INVALID_REQUEST',
        `the window holds more than ${limit} events for this subscription; narrow from and to${limit < MAX_EVENTS ? ' or raise max_events' : ''}`,
        { field: 'max_events', max_events: limit },
      );
    }
    return events;
  }
}
