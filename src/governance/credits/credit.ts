import type { Answer } from '../../answers/index.js';
import { invalidField, oneLine, parseAmount, type Unit } from '../../ledger/index.js';
import {
  fieldOf,
  type Fields,
  instantMs,
  optionalText,
  optionalTime,
  readJson,
  stringifyJson,
  timeOf,
} from '../../wire/index.js';
import type { CreditTermsDto } from './credit.dto.js';

const DEFAULT_PRIORITY = 50;

export type Credit = Answer<'Credit'>;

/** What the field `credits` of a budget says of its credits: lua/lib/credit_record.lua has its form. */
export interface LiveCredits {
  /** Those that have not ended, in the order in which they burn. */
  readonly burning: ReadonlyMap<string, { readonly isActive: boolean; readonly left: bigint }>;
  /** What ended credits keep for holds that were made before their ends. */
  readonly pinned: ReadonlyMap<string, bigint>;
}

/** @throws Error when the text is corrupt */
export function liveCredits(text = ''): LiveCredits {
  const [, burning = '', pins = ''] = text.split('|');
  const parts = (list: string): string[][] =>
    list === '' ? [] : list.split(' ').map((part) => part.split(','));
  return {
    burning: new Map(
      parts(burning).map(([id = '', state, left]) => [
        id,
        { isActive: state === 'a', left: parseAmount(left) },
      ]),
    ),
    pinned: new Map(parts(pins).map(([id = '', , left]) => [id, parseAmount(left)])),
  };
}

const STATUSES = ['SCHEDULED', 'ACTIVE', 'ENDED', 'EXHAUSTED', 'VOIDED'] as const;

/**
 * A credit from its record and from what its budget says of it.
 * @throws Error when the record is corrupt
 */
export function creditOf(id: string, record: Fields, live: LiveCredits): Credit {
  const fields: Fields = new Map([...record].filter(([, text]) => text !== ''));
  const unit = fieldOf(fields, 'unit') as Unit;
  const amountOf = (amount: bigint) => ({ unit, amount });
  const burning = live.burning.get(id);
  const stored = burning === undefined ? fields.get('status') : burning.isActive ? 'ACTIVE' : 'SCHEDULED';
  const status = STATUSES.find((known) => known === stored);
  if (status === undefined) {
    throw new Error(`corrupt credit record of ${id}: its status is ${stored}`);
  }
  const amount = parseAmount(fields.get('amount'));
  const [lapsed, voided] = [
    parseAmount(fields.get('lapsed') ?? '0'),
    parseAmount(fields.get('voided') ?? '0'),
  ];
  const [remaining, pinned] = [burning?.left ?? 0n, live.pinned.get(id) ?? 0n];
  const [notifyBeforeMs, metadata] = [fields.get('notify_before_ms'), fields.get('metadata')];
  return {
    credit_id: id,
    name: fieldOf(fields, 'name'),
    ...optionalText(fields, 'category'),
    status,
    amount: amountOf(amount),
    remaining: amountOf(remaining),
    consumed: amountOf(amount - remaining - pinned - lapsed - voided),
    lapsed: amountOf(lapsed),
    pinned: amountOf(pinned),
    voided: amountOf(voided),
    priority: Number(fieldOf(fields, 'priority')),
    effective_at: timeOf(fieldOf(fields, 'effective_at')),
    ...optionalTime(fields, 'expires_at'),
    ...(notifyBeforeMs !== undefined && { notify_before_ms: Number(notifyBeforeMs) }),
    ...(metadata !== undefined && { metadata: readJson(metadata) as Record<string, unknown> }),
    created_at: timeOf(fieldOf(fields, 'created_at')),
    ...(burning === undefined && optionalTime(fields, 'ended_at')),
  };
}

/** @throws Refusal INVALID_REQUEST if nothing of it can be read */
export function creditName(text: string, field = 'name'): string {
  const name = oneLine(text);
  if (name === '') {
    throw invalidField(field, `${field} must have a character that can be read`);
  }
  return name;
}

export interface CreditTexts {
  readonly amount: string;
  readonly name: string;
  readonly category: string;
  readonly priority: number;
  /** Empty for now. */
  readonly effectiveAt: number | '';
  /** Empty for no end. */
  readonly expiresAt: number | '';
  readonly notifyBeforeMs: number | '';
  readonly metadata: string;
}

/**
 * The terms as scripts take them. `path` is where the request has them.
 * @throws Refusal INVALID_REQUEST for a start before 1970, or a name that cannot be read
 */
export function creditTexts(terms: CreditTermsDto, path = ''): CreditTexts {
  const effectiveAt = instantMs(terms.effective_at);
  if (effectiveAt !== undefined && effectiveAt < 0) {
    throw invalidField('effective_at', 'effective_at must not be before 1970');
  }
  return {
    amount: terms.amount.amount.toString(),
    name: creditName(terms.name, `${path}name`),
    category: oneLine(terms.category),
    priority: terms.priority ?? DEFAULT_PRIORITY,
    effectiveAt: effectiveAt ?? '',
    expiresAt: instantMs(terms.expires_at) ?? '',
    notifyBeforeMs: terms.notify_before_ms ?? '',
    metadata: terms.metadata === undefined ? '' : stringifyJson(terms.metadata),
  };
}
