import { fieldsOf } from '../../governance/listing/index.js';
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

/** Below 0 when the first place comes before the second one in the list. */
export function compareDeliveries(a: DeliveryPlace, b: DeliveryPlace): number {
  return b.createdMs - a.createdMs || a.partition - b.partition || (a.ref < b.ref ? -1 : a.ref > b.ref ? 1 : 0);
}

/** One partition's deliveries of a subscription, some ahead of the reader. */
export class DeliverySource {
  /** Records that were looked at. */
  examined = 0;
  private rows: StoredDelivery[] = [];
  private next = 0;
  private behind: DeliveryPlace | undefined;
  private readonly toMs: number | undefined;
  private ended = false;

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
      this.toMs = Math.min(after.createdMs - (partition < after.partition ? 1 : 0), question.toMs ?? Infinity);
    }
  }

  get head(): StoredDelivery | undefined {
    return this.rows[this.next];
  }

  shift(): void {
    this.next += 1;
  }

  /** Whether there may be more, and nothing is in store. */
  get isOpen(): boolean {
    return this.head === undefined && !this.ended;
  }

  /** All up to here was looked at; undefined before the first look. */
  get reached(): DeliveryPlace | undefined {
    return this.behind;
  }

  /** Looks at a further stretch. @throws StoreUnavailable */
  async readOn(): Promise<void> {
    const { subscriptionId, status = '', fromMs = '-inf' } = this.question;
    const [nextMs = '', nextRef = '', examined, ...reply] = await this.redis.scripts.run(
      'list_deliveries',
      [deliveryIndexKey(tagOf(partitionCode(this.partition)), subscriptionId)],
      [fromMs, this.toMs ?? '+inf', this.behind?.createdMs ?? '', this.behind?.ref ?? '', status, EXAMINED_A_RUN, this.rowsARun],
    );
    this.examined += Number(examined);
    this.ended = nextMs === '';
    this.behind = this.ended ? this.behind : { createdMs: Number(nextMs), partition: this.partition, ref: nextRef };
    this.rows = [];
    this.next = 0;
    for (let index = 0; index < reply.length; ) {
      const [ref, createdMs, count] = reply.slice(index, index + 3) as [string, string, string];
      const end = index + 3 + Number(count);
      this.rows.push({ createdMs: Number(createdMs), partition: this.partition, ref, fields: fieldsOf(reply.slice(index + 3, end)) });
      index = end;
    }
  }
}
