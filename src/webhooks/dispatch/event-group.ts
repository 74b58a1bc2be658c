import { createHash } from 'node:crypto';
import type { OutgoingEvent } from './delivery.js';

/** Most bytes of a body with several events: 1 MB, which the usual endpoint accepts. */
const MOST_BYTES = 1_000_000;
const [OPEN, COMMA, CLOSE] = ['{"events":[', ',', ']}'].map((text) => Buffer.from(text)) as [
  Buffer,
  Buffer,
  Buffer,
];
const ID_DIGITS = 32;

/** The events of one request to a subscription with `events_per_request`, in the order of their queue. */
export class EventGroup {
  private bytes: number;

  constructor(
    private readonly events: [OutgoingEvent, ...OutgoingEvent[]],
    private readonly most: number,
  ) {
    this.bytes = OPEN.length + CLOSE.length + events.reduce((sum, { body }) => sum + body.length, 0);
  }

  /** Adds an event, if it fits. */
  add(event: OutgoingEvent): boolean {
    const bytes = this.bytes + COMMA.length + event.body.length;
    const fits = this.events.length < this.most && bytes <= MOST_BYTES;
    if (fits) {
      this.events.push(event);
      this.bytes = bytes;
    }
    return fits;
  }

  /** One body for all of them. Its id follows from theirs, so the same events again have the same id, and the trace from the id. */
  get outgoing(): OutgoingEvent {
    const ids = this.events.map(({ signed }) => signed.eventId).join(' ');
    const eventId = `grp_${createHash('sha256').update(ids).digest('hex').slice(0, ID_DIGITS)}`;
    const bodies = this.events.flatMap(({ body }, index) => (index === 0 ? [body] : [COMMA, body]));
    return {
      signed: { eventId, eventType: 'events' },
      trace: '',
      body: Buffer.concat([OPEN, ...bodies, CLOSE]),
    };
  }
}
