/**
 * The public id of an event, made of its place in the event log: `evt_`, the milliseconds of the stream entry in 11 hex digits,
 * the partition in 2, and the entry's sequence in 3 or more. So nothing has to be stored to name an event or to find it again,
 * and ids of one length sort by time.
 */
export interface EventPlace {
  /** Two hex digits, as in the partition's hash tag. */
  readonly partition: string;
  /** The stream entry, `ms-sequence`. */
  readonly entryId: string;
}

const ENTRY_ID = /^(\d{1,14})-(\d{1,20})$/;
const EVENT_ID = /^evt_([0-9a-f]{11})([0-9a-f]{2})([0-9a-f]{3}|[1-9a-f][0-9a-f]{3,15})$/;

/** @throws Error when the entry id is none. */
export function eventIdOf({ partition, entryId }: EventPlace): string {
  const parts = ENTRY_ID.exec(entryId);
  if (parts === null) {
    throw new Error(`not an entry of the event log: ${entryId}`);
  }
  const [ms, sequence] = [BigInt(parts[1] as string), BigInt(parts[2] as string)];
  return `evt_${ms.toString(16).padStart(11, '0')}${partition}${sequence.toString(16).padStart(3, '0')}`;
}

/** Where the event stands, or undefined when Holdfast never issued such an id. */
export function eventPlaceOf(eventId: string): EventPlace | undefined {
  const parts = EVENT_ID.exec(eventId);
  if (parts === null) {
    return undefined;
  }
  const [, ms, partition, sequence] = parts as unknown as [string, string, string, string];
  return { partition, entryId: `${Number.parseInt(ms, 16)}-${BigInt(`0x${sequence}`)}` };
}

/** A text by which events sort in time, of one instant by partition, and of one partition as they were written. */
export function eventOrder(eventId: string): string {
  return eventId.slice(4, 17) + eventId.slice(17).padStart(16, '0');
}
