import { SCOPE_LEVELS, type ScopeLevel } from '../ledger/index.js';
import { FIELD, GIVEN_ROWS, GIVEN_WRITERS, type GivenRow } from '../redis/index.js';
import { isPlainObject, readJson, stringifyJson } from '../wire/index.js';

/** A stored record, or an event with the same fields. lua/lib/field.lua names them. */
export type ReservationRecord = ReadonlyMap<string, string>;

/** Called for a stored text that is malformed. The text is then left out of the response. */
export type OnDamage = (reason: string) => void;

type Part = GivenRow['of'];

/** Lengths are in characters (code points), as for requests. */
const isText = (value: unknown, most = Infinity): value is string =>
  typeof value === 'string' && (value.length <= most || [...value].length <= most);
const MOST_ITEMS = 10;

/** Whether Holdfast can have written this value. */
const isSound: Readonly<Record<GivenRow['kind'], (value: unknown, most?: number) => boolean>> = {
  text: (value, most) => value !== '' && isText(value, most),
  json: isPlainObject,
  list: (value, most) =>
    Array.isArray(value) && value.length <= MOST_ITEMS && value.every((entry) => isText(entry, most)),
  map: (value, most) => isPlainObject(value) && Object.values(value).every((entry) => isText(entry, most)),
};

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

const BYTES_OF_UUID = 16;
const uuid = Buffer.alloc(BYTES_OF_UUID);

/** Appends the idempotency key as a field and its value: most keys are UUIDs, and a UUID takes 22 characters instead of 36. */
export function writeKey(fields: string[], key: string): void {
  if (!UUID.test(key)) {
    fields.push(FIELD.idempotency_key, key);
    return;
  }
  uuid.write(
    key.slice(0, 8) + key.slice(9, 13) + key.slice(14, 18) + key.slice(19, 23) + key.slice(24),
    'hex',
  );
  fields.push(FIELD.idempotency_uuid, uuid.toString('base64url'));
}

/** The fields of a subject's levels. */
export const LEVEL_FIELDS: Readonly<Record<ScopeLevel, string>> = Object.fromEntries(
  SCOPE_LEVELS.map((level) => [level, FIELD[level]]),
) as Record<ScopeLevel, string>;

const UNATTESTED = GIVEN_ROWS.filter((row) => row.isUnattested);

/** A request without the given members that envelopes lack. */
export function attestable(request: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const attested = { ...request };
  for (const { of, member } of UNATTESTED) {
    if (of === 'request') {
      delete attested[member];
    } else if (attested[of] !== undefined) {
      const { [member]: _, ...part } = attested[of] as Record<string, unknown>;
      attested[of] = part;
    }
  }
  return attested;
}

/** Appends the given members of a part of a request as field and value pairs. */
export function writeMembers(of: Part, part: object, fields: string[]): void {
  GIVEN_WRITERS[of](part, fields, stringifyJson);
}

/**
 * The members of a part, from a record or an event with the same fields: without those that are long or damaged, unless everything is wanted as it
 * is stored.
 */
export function givenMembers(
  of: Part,
  record: ReservationRecord,
  onDamage?: OnDamage,
  { asStored = false, rows = GIVEN_ROWS } = {},
): Record<string, unknown> {
  const members: Record<string, unknown> = {};
  for (const row of rows) {
    if (row.of === of && (asStored || row.isLong !== true)) {
      const text = record.get(row.stored);
      const value = storedValue(row, text, onDamage) ?? (asStored ? text : row.otherwise);
      if (value !== undefined) {
        members[row.member] = value;
      }
    }
  }
  return members;
}

function storedValue(
  { kind, most, otherwise }: GivenRow,
  text: string | undefined,
  onDamage?: OnDamage,
): unknown {
  if (text === undefined && otherwise === undefined) {
    return undefined;
  }
  const value = kind === 'text' ? text : parsed(text as string);
  if (!isSound[kind](value, most)) {
    onDamage?.(kind === 'text' ? 'INVALID_TEXT' : 'INVALID_JSON');
    return undefined;
  }
  return value;
}

/** A member of a response that is stored as a JSON object. Absent if there is no text, or if Holdfast cannot have written it. */
export function storedObject<Name extends string>(
  name: Name,
  text: string | null | undefined,
  onDamage?: OnDamage,
): Partial<Record<Name, never>> {
  if (text === undefined || text === null) {
    return {};
  }
  const value = parsed(text);
  if (!isPlainObject(value)) {
    onDamage?.('INVALID_JSON');
    return {};
  }
  return { [name]: value } as Partial<Record<Name, never>>;
}

function parsed(text: string): unknown {
  try {
    return readJson(text);
  } catch {
    return undefined;
  }
}

/** A stored text of 1 to `most` characters, or undefined for anything else. */
export function storedText(text: string | undefined, most: number, onDamage?: OnDamage): string | undefined {
  if (text === undefined || !isSound.text(text, most)) {
    onDamage?.('INVALID_TEXT');
    return undefined;
  }
  return text;
}
