import { eventIdOf } from '../../src/events/index.js';
import { partitionCode } from '../../src/redis/keyspace.js';
import type { AttemptOutcome } from '../../src/webhooks/transport/attempt.js';
import type { WebhookRequest, WebhookTransport } from '../../src/webhooks/transport/webhook-transport.js';
import type { LedgerEvent } from '../support/ledger-state.js';
import type { Actor } from './world-time.js';

export const MOST_ATTEMPTS = 6;
const ORIGIN = 'http://endpoint.example/';

/** The events that a subscription gets. An empty `tenant` means all tenants. */
export interface Subscription {
  readonly id: string;
  readonly tenant: string;
  readonly types: readonly string[];
}

interface Post {
  readonly actor: Actor;
  readonly subscription: string;
  readonly eventId: string;
  readonly answer: (outcome: AttemptOutcome) => void;
}

/** What the endpoint knows about one event of one subscription. */
interface Seen {
  accepted: boolean;
  attempts: number;
}

/**
 * The endpoint's response to an attempt. `lost` means that the endpoint accepted the event but the response
 * was lost.
 */
export type Answer = 'accepted' | 'refused' | 'lost';

/** The endpoint of all subscriptions, and the record of the events that it must have received. */
export class Endpoint {
  readonly subscriptions: Subscription[] = [];
  /** Attempts that wait for a response. */
  posts: Post[] = [];
  private readonly seen = new Map<string, Seen>();
  /** The last event that was attempted for the first time, by subscription and tenant. */
  private readonly latest = new Map<string, string>();
  /** Events up to here may arrive late, because a failover has lost their place in the queue. */
  private unorderedUntil = '';
  /** The tenant and the position of each event that was ever in the log, by id. */
  private readonly events = new Map<string, { readonly tenant: string; readonly order: string }>();

  transportOf(actor: Actor): Pick<WebhookTransport, 'post'> {
    return {
      post: ({ url, headers }: WebhookRequest) =>
        new Promise((answer) => {
          const eventId = headers['x-cycles-event-id'] ?? '';
          this.posts.push({ actor, subscription: url.slice(ORIGIN.length), eventId, answer });
        }),
    };
  }

  urlOf(subscription: string): string {
    return ORIGIN + subscription;
  }

  /** Records an event of the log. */
  told(partition: number, { id, fields }: LedgerEvent): void {
    const eventId = eventIdOf({ partition: partitionCode(partition), entryId: id });
    this.events.set(eventId, { tenant: fields['tn'] ?? '', order: orderOf(id) });
  }

  /** Records a failover. */
  lostTail(nowMs: number): void {
    this.unorderedUntil = orderOf(`${nowMs}-0`);
  }

  /**
   * Responds to a waiting attempt. @throws Error if the event must not be delivered, or overtakes an earlier
   * one
   */
  answer(post: Post, how: Answer): void {
    this.posts = this.posts.filter((other) => other !== post);
    const event = this.events.get(post.eventId);
    if (event === undefined) {
      throw new Error(`${post.eventId} was delivered to ${post.subscription}, but it was never in the log`);
    }
    const name = `${post.subscription} ${post.eventId}`;
    const seen = this.seen.get(name) ?? { accepted: false, attempts: 0 };
    const queue = `${post.subscription} ${event.tenant}`;
    if (seen.attempts === 0) {
      const before = this.latest.get(queue) ?? '';
      if (event.order < before && event.order > this.unorderedUntil) {
        throw new Error(`${name} was first attempted after a later event of ${event.tenant}, ${before}`);
      }
      this.latest.set(queue, event.order);
    }
    seen.attempts += 1;
    seen.accepted ||= how !== 'refused';
    this.seen.set(name, seen);
    if (how === 'accepted') {
      post.answer({ ok: true, status: 200, durationMs: 5 });
    } else if (how === 'refused') {
      post.answer({ ok: false, status: 500, durationMs: 5, error: 'refused', reason: 'http_5xx' });
    } else {
      post.answer({ ok: false, durationMs: 5, error: 'no answer', reason: 'transport_error' });
    }
  }

  /** Events of this list that were not delivered, although a subscription selects them. */
  missing(partition: number, events: readonly LedgerEvent[]): string[] {
    return events.flatMap(({ id, fields }) => {
      const eventId = eventIdOf({ partition: partitionCode(partition), entryId: id });
      return this.subscriptions
        .filter(
          ({ tenant, types }) =>
            (tenant === '' || tenant === fields['tn']) && types.includes(fields['ty'] ?? ''),
        )
        .filter((subscription) => {
          const seen = this.seen.get(`${subscription.id} ${eventId}`);
          return seen === undefined || !(seen.accepted || seen.attempts >= MOST_ATTEMPTS);
        })
        .map((subscription) => `${eventId} (${fields['ty']}) was not delivered to ${subscription.id}`);
    });
  }

  /** Forgets events older than this, which have left the log. */
  forget(before: number): void {
    for (const [eventId, { order }] of this.events) {
      if (Number.parseInt(order, 10) >= before) {
        break;
      }
      this.events.delete(eventId);
      this.subscriptions.forEach(({ id }) => this.seen.delete(`${id} ${eventId}`));
    }
  }
}

/** A text that sorts like the ids of the log. */
function orderOf(id: string): string {
  const [ms = '', sequence = ''] = id.split('-');
  return `${ms.padStart(15, '0')}-${sequence.padStart(6, '0')}`;
}
