import { Refusal } from '../../ledger/index.js';
import { stringifyJson } from '../json.js';

/** How deep free JSON may nest: deeper values would exhaust the stack of every recursive reader behind us. */
export const FREE_OBJECT_MAX_DEPTH = 32;

/** The default of METADATA_LIMIT_BYTES. */
const limits = { metadataBytes: 16_384 };

/** Sets METADATA_LIMIT_BYTES, once, before the first request. Rules are made when their classes load, before there is a configuration. */
export function useMetadataLimit(bytes: number): void {
  limits.metadataBytes = bytes;
}

export const metadataLimitBytes = (): number => limits.metadataBytes;

export interface Oversize {
  readonly size_bytes: number;
  readonly limit_bytes: number;
}

/**
 * The size of a value that is too large: the bytes of its JSON in UTF-8, as it is stored. Undefined when it is within the
 * limit, and for a value that nests too deeply to be measured, which another rule refuses.
 */
export function oversizeOf(value: unknown, limit: number): Oversize | undefined {
  if (typeof value !== 'object' || value === null || !depthWithin(value, FREE_OBJECT_MAX_DEPTH)) {
    return undefined;
  }
  const size = Buffer.byteLength(stringifyJson(value));
  return size > limit ? { size_bytes: size, limit_bytes: limit } : undefined;
}

/** What a client is told of a value that is too large. */
export const oversizeMessage = (path: string, { size_bytes, limit_bytes }: Oversize): string =>
  `${path} has ${size_bytes} bytes as JSON; at most ${limit_bytes} are allowed`;

/**
 * For what a request makes of stored parts and its own, which no rule on the request alone can bound.
 * @throws Refusal INVALID_REQUEST when the value has more than METADATA_LIMIT_BYTES.
 */
export function requireWithinMetadataLimit(field: string, value: object): void {
  const oversize = oversizeOf(value, metadataLimitBytes());
  if (oversize !== undefined) {
    throw new Refusal('INVALID_REQUEST', oversizeMessage(field, oversize), { field, ...oversize });
  }
}

export function depthWithin(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) {
    return true;
  }
  if (levels === 0) {
    return false;
  }
  for (const key in value) {
    if (!depthWithin((value as Record<string, unknown>)[key], levels - 1)) {
      return false;
    }
  }
  return true;
}
