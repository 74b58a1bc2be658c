import { invalidField } from '../../ledger/index.js';
import { requireFreeObjectSize } from '../../wire/index.js';
import { unlessBroken, type SecretBox } from '../signing/secret-box.js';
import { isReservedHeader, openHeaders } from '../signing/signing.js';

/** Shown in place of a header's value. A client sends it back to keep the stored value. */
export const MASK = '********';

const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/;
const VALUE = /^[\t\x20-\x7e]*$/;

export const HEADER_RULE =
  'an object of header names and printable values, without two names that differ only in case, and without headers that a delivery sets itself (such as Host, Content-*, X-Cycles-*, webhook-*)';

export function areHeaders(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) {
    return false;
  }
  const names = Object.keys(value);
  return (
    new Set(names.map((name) => name.toLowerCase())).size === names.length &&
    names.every((name) => NAME.test(name) && !isReservedHeader(name)) &&
    Object.values(value).every((text) => typeof text === 'string' && VALUE.test(text))
  );
}

/** Headers as they are stored: sealed, with the names kept separately so that lists can show them without opening anything. */
export interface StoredHeaders {
  readonly sealed: string;
  readonly names: string;
}

/** The stored form of no headers. */
export const NO_HEADERS: StoredHeaders = { sealed: '', names: '' };

export function sealHeaders(
  box: SecretBox,
  subscriptionId: string,
  headers: Readonly<Record<string, string>>,
): StoredHeaders {
  const names = Object.keys(headers);
  return names.length === 0
    ? NO_HEADERS
    : {
        sealed: box.seal(JSON.stringify(headers), { subscriptionId, kind: 'headers' }),
        names: names.join(','),
      };
}

/**
 * The headers of a request, with each masked value replaced by the stored one.
 * @returns undefined if nothing changes
 * @throws Refusal INVALID_REQUEST if there is no readable stored value for a masked one.
 */
export function mergeHeaders(
  box: SecretBox,
  subscriptionId: string,
  stored: string | undefined,
  requested: Readonly<Record<string, string>>,
): StoredHeaders | undefined {
  const known = unlessBroken(() => openHeaders(box, subscriptionId, stored));
  const merged: Record<string, string> = {};
  for (const [name, value] of Object.entries(requested)) {
    const kept = value === MASK ? known?.[name] : value;
    if (kept === undefined) {
      throw invalidField(
        'headers',
        `headers.${name}: ${MASK} stands for the stored value, but there is none; give the value`,
      );
    }
    merged[name] = kept;
  }
  requireFreeObjectSize('headers', merged);
  return known !== undefined && sameHeaders(known, merged)
    ? undefined
    : sealHeaders(box, subscriptionId, merged);
}

function sameHeaders(
  one: Readonly<Record<string, string>>,
  other: Readonly<Record<string, string>>,
): boolean {
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => one[name] === other[name]);
}
