import { IsInt, IsString, Max, Min } from 'class-validator';
import { instantMs, IsInAnyCase, Length, Obeys, Optional } from '../wire/index.js';

export const EXPIRATION_STATES = ['EXPIRED', 'QUARANTINED'] as const;
export type ExpirationState = (typeof EXPIRATION_STATES)[number];

export const FORMATS = ['json', 'ndjson', 'csv'] as const;
export type Format = (typeof FORMATS)[number];

const MILLISECONDS = /^-?\d{1,14}$/;

/** A bound of the window in ms since the epoch: from a date-time, or from the milliseconds themselves. Undefined for a blank one. */
export function boundMs(text: string | undefined): number | undefined {
  return text !== undefined && MILLISECONDS.test(text) ? Number(text) : instantMs(text);
}

function IsBound(): PropertyDecorator {
  return Obeys({
    name: 'isBound',
    test: (value) => typeof value === 'string' && (value.trim() === '' || boundMs(value) !== undefined),
    schema: { type: 'string' },
    phrase:
      "a date-time such as 2026-01-31T12:00:00Z (a '+' is written %2B in a URL), or milliseconds since 1970, or blank for no bound",
  });
}

/** Query of GET /ops/expirations. Both bounds are inclusive; blank bounds and a blank cursor count as left out. */
export class ExpirationsQueryDto {
  @Optional()
  @IsBound()
  from?: string;

  @Optional()
  @IsBound()
  to?: string;

  @Optional()
  @IsString()
  @Length(1, 64)
  tenant?: string;

  /** The reservation's own scope, or one above it. */
  @Optional()
  @IsString()
  @Length(1, 1024)
  scope?: string;

  @Optional()
  @IsInAnyCase(EXPIRATION_STATES)
  state?: string;

  /** Rows of a page; an export has as many as there are unless it is given. */
  @Optional()
  @IsInt()
  @Min(1)
  @Max(1000)
  limit?: number;

  @Optional()
  @IsString()
  cursor?: string;

  /** Goes before the Accept header. */
  @Optional()
  @IsInAnyCase(FORMATS)
  format?: string;
}

/** Query of GET /ops/verify. Without a tenant all are verified, a page at a time. */
export class VerifyQueryDto {
  @Optional()
  @IsString()
  @Length(1, 64)
  tenant?: string;

  @Optional()
  @IsString()
  cursor?: string;
}
