import { SCOPE_LEVELS, type ScopeLevel } from '../ledger/index.js';
import { FIELD } from '../redis/index.js';
import { readJson, stringifyJson } from '../wire/index.js';

/** A stored record, or an event with the same fields. lua/lib/field.lua names them. */
export type ReservationRecord = ReadonlyMap<string, string>;

/** Called for a stored text that is malformed. The text is then left out of the response. */
export type OnDamage = (reason: string) => void;

type Part = 'subject' | 'action' | 'request';

interface GivenField {
  /** What it is a member of in requests and answers. */
  readonly of: Part;
  readonly member: string;
  readonly stored: string;
  /** Texts are stored as they are, everything else as JSON. */
  readonly isText?: true;
  /** Whether Holdfast can have written this value. */
  readonly isSound: (value: unknown) => boolean;
  /** Shown instead of a damaged value, where answers require one. */
  readonly otherwise?: string;
  /** Left out of the rows that scripts read for lists: see `withMetadata`. */
  readonly isLong?: true;
  /** The schemas of envelopes lack it, so that evidence leaves it out. */
  readonly isUnattested?: true;
}

const isObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
/** Lengths are in characters (code points), as for requests. */
const isText = (value: unknown, most: number): value is string =>
  typeof value === 'string' && (value.length <= most || [...value].length <= most);
const textOf =
  (most: number) =>
  (value: unknown): boolean =>
    value !== '' && isText(value, most);

/**
 * What a request says that is kept for readers. From this table follow the fields that are stored, and the members of GET, of lists, of the
 * audit view, of events and of evidence. The action's kind and name come first, where scripts read them.
 */
export const GIVEN_FIELDS: readonly GivenField[] = [
  {
    of: 'action',
    member: 'kind',
    stored: FIELD.action_kind,
    isText: true,
    isSound: textOf(64),
    otherwise: 'unknown',
  },
  {
    of: 'action',
    member: 'name',
    stored: FIELD.action_name,
    isText: true,
    isSound: textOf(256),
    otherwise: 'unknown',
  },
  {
    of: 'action',
    member: 'tags',
    stored: FIELD.action_tags,
    isSound: (value) =>
      Array.isArray(value) && value.length <= 10 && value.every((entry) => isText(entry, 64)),
  },
  {
    of: 'action',
    member: 'policy_keys',
    stored: FIELD.policy_keys,
    isSound: isObject,
    isUnattested: true,
  },
  {
    of: 'subject',
    member: 'dimensions',
    stored: FIELD.dimensions,
    isSound: (value) =>
      isObject(value) && Object.values(value as object).every((entry) => isText(entry, 256)),
  },
  { of: 'request', member: 'metadata', stored: FIELD.metadata, isSound: isObject, isLong: true },
];

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The field and the value by which the record has the idempotency key: most are UUIDs, and a UUID takes 22 characters instead of 36. */
export function keyFields(key: string): [field: string, value: string] {
  return UUID.test(key)
    ? [FIELD.idempotency_uuid, Buffer.from(key.replaceAll('-', ''), 'hex').toString('base64url')]
    : [FIELD.idempotency_key, key];
}

/** The fields of a subject's levels. */
export const LEVEL_FIELDS: Readonly<Record<ScopeLevel, string>> = Object.fromEntries(
  SCOPE_LEVELS.map((level) => [level, FIELD[level]]),
) as Record<ScopeLevel, string>;

/** A request without the given members that envelopes lack. */
export function attestable(request: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const attested = { ...request };
  for (const { of, member } of GIVEN_FIELDS.filter(({ isUnattested }) => isUnattested)) {
    if (of === 'request') {
      delete attested[member];
    } else if (attested[of] !== undefined) {
      const { [member]: _, ...part } = attested[of] as Record<string, unknown>;
      attested[of] = part;
    }
  }
  return attested;
}

/** The given members of a part of a request as field and value pairs. */
export function givenPairs(of: Part, part: object): string[] {
  return GIVEN_FIELDS.flatMap((field) => {
    const value = field.of === of ? (part as Record<string, unknown>)[field.member] : undefined;
    if (value === undefined) {
      return [];
    }
    return [field.stored, field.isText ? (value as string) : stringifyJson(value)];
  });
}

/**
 * The members of a part, from a record or an event with the same fields: without those that are long or damaged, unless everything is wanted as it
 * is stored.
 */
export function givenMembers(
  of: Part,
  record: ReservationRecord,
  onDamage?: OnDamage,
  { asStored = false } = {},
): Record<string, unknown> {
  const members: Record<string, unknown> = {};
  for (const field of GIVEN_FIELDS) {
    if (field.of === of && (asStored || field.isLong !== true)) {
      const text = record.get(field.stored);
      const value = storedValue(field, text, onDamage) ?? (asStored ? text : field.otherwise);
      if (value !== undefined) {
        members[field.member] = value;
      }
    }
  }
  return members;
}

function storedValue(field: GivenField, text: string | undefined, onDamage?: OnDamage): unknown {
  if (text === undefined && field.otherwise === undefined) {
    return undefined;
  }
  const value = field.isText ? text : parsed(text as string);
  if (!field.isSound(value)) {
    onDamage?.(field.isText ? 'INVALID_TEXT' : 'INVALID_JSON');
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
  if (!isObject(value)) {
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
  if (text === undefined || !textOf(most)(text)) {
    onDamage?.('INVALID_TEXT');
    return undefined;
  }
  return text;
}
