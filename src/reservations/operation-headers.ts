import type { IncomingHttpHeaders } from 'node:http';
import { Obeys, Optional } from '../wire/index.js';

/** The header that says what one hold costs if it expires. */
export const CHARGE_HEADER = 'X-Holdfast-Charge-On-Expiry';

/** By the name of a header in any case. */
export type OperationHeaders = Readonly<Record<string, string>>;

const isHeaders = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  Object.entries(value).every(
    ([name, text]) => name.toLowerCase() === CHARGE_HEADER.toLowerCase() && typeof text === 'string',
  );

/** What a request of its own would say in headers, for one of several operations in a request. */
export function HeadersOfOperation(): PropertyDecorator {
  const rule = Obeys({
    name: 'isHeaders',
    test: isHeaders,
    schema: {
      type: 'object',
      properties: {
        [CHARGE_HEADER]: { type: 'string', description: 'For a reserve: what it costs if it expires.' },
      },
      additionalProperties: false,
    },
    phrase: `an object with the text of ${CHARGE_HEADER} at most`,
  });
  return Optional(rule);
}

/** Those of the whole request, and of one of its operations. */
export function headersOf(all: IncomingHttpHeaders, own: OperationHeaders = {}): IncomingHttpHeaders {
  const named = Object.entries(own).map(([name, text]) => [name.toLowerCase(), text] as const);
  return { ...all, ...Object.fromEntries(named) };
}
