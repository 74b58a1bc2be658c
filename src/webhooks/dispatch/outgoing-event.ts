import { eventJson, toEvent, traceOf, type CyclesEvent } from '../../event-log/index.js';
import type { SignedEvent } from '../signing/index.js';
import type { LogEntry } from './page.js';

/** One event on its way to its subscribers: what they have in common is made once. */
export class OutgoingEvent {
  readonly event: CyclesEvent;
  /** As the log holds it: trace id and flags, or empty. */
  readonly trace: string;
  readonly signed: SignedEvent;
  private json: Buffer | undefined;

  constructor(
    partition: string,
    readonly entry: LogEntry,
  ) {
    this.event = toEvent(partition, entry.entryId, entry.fields);
    this.trace = entry.fields.get('tr') ?? '';
    const trace = traceOf(entry.fields);
    this.signed = {
      eventId: this.event.event_id,
      eventType: this.event.event_type,
      traceId: trace?.traceId,
      traceFlags: trace?.flags,
      requestId: this.event.request_id,
    };
  }

  /** The exact bytes that are sent and signed. */
  get body(): Buffer {
    this.json ??= Buffer.from(eventJson(this.event), 'utf8');
    return this.json;
  }
}
