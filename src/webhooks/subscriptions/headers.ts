import { Refusal } from '../../ledger/index.js';
import { requireWithinMetadataLimit } from '../../wire/index.js';
import { ifUnbroken, type SecretBox } from '../signing/secret-box.js';
import { isReservedHeader, openHeaders } from '../signing/signing.js';

/** What a subscriber sees instead of a value, and sends back to keep it. */
export const MASK = '********';

const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/;
const VALUE = /^[\t\x20-\x7e]*$/;

export const HEADER_RULE =
  'an object of header names and printable values, each name once whatever its case, without those that the delivery itself sets (Host, Content-*, X-Cycles-*, webhook-* and the like)';

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

/** Headers as they are stored: sealed, and their names apart, so that a list can be shown without opening anything. */
export interface StoredHeaders {
  readonly sealed: string;
  readonly names: string;
}

/** What stands for no headers at all. */
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
 * The headers that a request asks for, where a masked value stands for the one that is stored.
 * @returns undefined when nothing changes.
 * @throws Refusal INVALID_REQUEST when a masked value stands for nothing that can be read.
 */
export function mergeHeaders(
  box: SecretBox,
  subscriptionId: string,
  stored: string | undefined,
  asked: Readonly<Record<string, string>>,
): StoredHeaders | undefined {
  const known = ifUnbroken(() => openHeaders(box, subscriptionId, stored));
  const merged: Record<string, string> = {};
  for (const [name, value] of Object.entries(asked)) {
    const kept = value === MASK ? known?.[name] : value;
    if (kept === undefined) {
      throw new Refusal(
        'INVALID_REQUEST',
        `headers.${name}: there is no stored value that ${MASK} could stand for; give the value`,
        { field: 'headers' },
      );
    }
    merged[name] = kept;
  }
  requireWithinMetadataLimit('headers', merged);
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
