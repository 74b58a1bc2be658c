import { type CyclesEvent, eventJson, traceOf } from '../../events/index.js';
import type { SignedEvent } from '../signing/signing.js';
import type { LogEntry } from './page.js';

/** One event on its way to its subscribers: what is sent to each of them is made once, and nothing else of the event is kept. */
export class OutgoingEvent {
  readonly signed: SignedEvent;
  /** As the log holds it: trace id and flags, or empty. */
  readonly trace: string;
  /** The exact bytes that are sent and signed. */
  readonly body: Buffer;

  constructor(event: CyclesEvent, { fields }: LogEntry) {
    const trace = traceOf(fields);
    this.signed = {
      eventId: event.event_id,
      eventType: event.event_type,
      traceId: trace?.traceId,
      traceFlags: trace?.flags,
      requestId: event.request_id,
    };
    this.trace = fields.get('tr') ?? '';
    this.body = Buffer.from(eventJson(event), 'utf8');
  }
}
