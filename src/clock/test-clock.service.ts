import { Injectable } from '@nestjs/common';
import type { Answer } from '../answers/index.js';
import { DAY_MS, invalidField, Refusal } from '../ledger/index.js';
import { auditLogKey, Records, RedisService, SYSTEM_OWNER, testClockKey } from '../redis/index.js';
import { instantMs, IsDateTime, IsInt, Optional, type Origin, timeOf } from '../wire/index.js';
import { Advance } from './advance.js';

/** How far one advance may go. */
const LONGEST_ADVANCE_MS = 366 * DAY_MS;
const LAST_INSTANT_MS = Date.parse('2200-01-01T00:00:00Z');

/** Body of POST /ops/test-clock/advance: one of the two. */
export class TestClockAdvanceDto {
  @Optional(IsDateTime())
  to?: string;

  @Optional(IsInt({ min: 1, max: LONGEST_ADVANCE_MS }))
  by_ms?: number;
}

/** The time of the deployment as /ops/test-clock shows it. */
export type TestClock = Answer<'TestClock'>;

/** The time of the deployment. Only with HOLDFAST_TEST_CLOCK=true; otherwise there is only the clock of Redis. */
@Injectable()
export class TestClockService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly advances: Advance,
  ) {}

  async read(): Promise<TestClock> {
    const { nowMs, aheadMs, advancingToMs } = await this.redis.scripts.call(
      'read_test_clock',
      { testClock: testClockKey() },
      {},
    );
    return {
      status: advancingToMs === undefined ? 'READY' : 'ADVANCING',
      now: timeOf(String(nowMs)),
      ahead_by_ms: aheadMs,
      ...(advancingToMs !== undefined && { advancing_to: timeOf(String(advancingToMs)) }),
    };
  }

  /**
   * Lets time pass. If there is more to do than one request may take, the clock is still ADVANCING afterwards, and a repetition continues.
   * @throws Refusal INVALID_REQUEST (not one of the two members, backwards, or too far at once).
   */
  async advance(request: TestClockAdvanceDto, origin: Origin): Promise<TestClock> {
    const toMs = targetOf(request);
    const begun = await this.redis.scripts.call(
      'begin_advance',
      { testClock: testClockKey(), auditLog: auditLogKey(this.records.tagOfTenant(SYSTEM_OWNER)) },
      {
        toMs: toMs ?? '',
        byMs: request.by_ms ?? '',
        longestMs: LONGEST_ADVANCE_MS,
        lastMs: LAST_INSTANT_MS,
        ...origin,
      },
    );
    if (begun.status === 'NOT_FORWARD' || begun.status === 'TOO_FAR') {
      throw advanceRefusal(begun);
    }
    if (begun.status === 'ADVANCING') {
      await this.advances.run();
      await this.redis.clock.sync();
    }
    return this.read();
  }
}

/** @throws Refusal INVALID_REQUEST */
function targetOf({ to, by_ms: byMs }: TestClockAdvanceDto): number | undefined {
  if ((to === undefined) === (byMs === undefined)) {
    throw invalidField(to === undefined ? 'to' : 'by_ms', 'give either to or by_ms');
  }
  return to === undefined ? undefined : instantMs(to);
}

function advanceRefusal({
  status,
  limitMs,
}: {
  readonly status: 'NOT_FORWARD' | 'TOO_FAR';
  readonly limitMs: number;
}): Refusal {
  const limit = timeOf(String(limitMs));
  return invalidField(
    'to',
    status === 'TOO_FAR'
      ? `an advance may go to ${limit} now: at most 366 days at a time, and not beyond 2199`
      : `time has reached ${limit}, or is on its way there: it goes forward only`,
  );
}
