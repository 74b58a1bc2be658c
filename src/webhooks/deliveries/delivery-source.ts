import { fieldsOf, type Stretch } from '../../governance/listing/index.js';
import { deliveryIndexKey, partitionCode, RedisService, tagOf } from '../../redis/index.js';
import type { DeliveryPlace, DeliveryStatus, StoredDelivery } from './delivery.js';

/** Records that one script looks at: about a millisecond of Redis' time. */
const EXAMINED_A_RUN = 250;

/** What of a subscription's deliveries is asked for. */
export interface DeliveryQuestion {
  readonly subscriptionId: string;
  readonly status: DeliveryStatus | undefined;
  /** Bounds of the time at which they were queued, in ms, both included. */
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
}

/** Whether a place comes before one of another partition; lua/list_deliveries.lua knows the order within a partition. */
export function isBefore(one: DeliveryPlace, other: DeliveryPlace): boolean {
  return (
    one.createdMs > other.createdMs || (one.createdMs === other.createdMs && one.partition < other.partition)
  );
}

/** One partition's deliveries of a subscription, read stretch by stretch. */
export class DeliverySource {
  private behind: DeliveryPlace | undefined;
  private readonly toMs: number | undefined;

  /** @param after where the page before ended, in whichever partition */
  constructor(
    private readonly redis: RedisService,
    private readonly partition: number,
    private readonly question: DeliveryQuestion,
    private readonly rowsARun: number,
    after: DeliveryPlace | undefined,
  ) {
    this.toMs = question.toMs;
    if (after?.partition === partition) {
      this.behind = after;
    } else if (after !== undefined) {
      // Of the instant at which the page before ended, the partitions above its own are left.
      this.toMs = Math.min(
        after.createdMs - (partition < after.partition ? 1 : 0),
        question.toMs ?? Infinity,
      );
    }
  }

  /** Looks at a further stretch. @throws StoreUnavailable */
  async readOn(): Promise<Stretch<StoredDelivery, DeliveryPlace>> {
    const { subscriptionId, status = '', fromMs = '-inf' } = this.question;
    const [nextMs = '', nextRef = '', examined, ...reply] = await this.redis.queries.run(
      'list_deliveries',
      [deliveryIndexKey(tagOf(partitionCode(this.partition)), subscriptionId)],
      [
        fromMs,
        this.toMs ?? '+inf',
        this.behind?.createdMs ?? '',
        this.behind?.ref ?? '',
        status,
        EXAMINED_A_RUN,
        this.rowsARun,
      ],
    );
    const rows: StoredDelivery[] = [];
    for (let index = 0; index < reply.length;) {
      const [ref, createdMs, count] = reply.slice(index, index + 3) as [string, string, string];
      const end = index + 3 + Number(count);
      rows.push({
        createdMs: Number(createdMs),
        partition: this.partition,
        ref,
        fields: fieldsOf(reply.slice(index + 3, end)),
      });
      index = end;
    }
    const reached =
      nextMs === '' ? undefined : { createdMs: Number(nextMs), partition: this.partition, ref: nextRef };
    this.behind = reached;
    return { rows, reached, examined: Number(examined) };
  }
}
