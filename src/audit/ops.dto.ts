import { IsInt, IsString, Max, Min } from 'class-validator';
import { instantMs, IsInAnyCase, Length, Obeys, Optional } from '../wire/index.js';

export const EXPIRATION_STATES = ['EXPIRED', 'QUARANTINED'] as const;
export type ExpirationState = (typeof EXPIRATION_STATES)[number];

export const FORMATS = ['json', 'ndjson', 'csv'] as const;
export type Format = (typeof FORMATS)[number];

const MILLISECONDS = /^-?\d{1,14}$/;

/** A bound of the window in ms since 1970, from a date-time or from milliseconds. Undefined for a blank one. */
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

/** Query of GET /ops/expirations. Both bounds are inclusive. A blank bound or cursor counts as absent. */
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

  /** The reservation's scope, or one above it. */
  @Optional()
  @IsString()
  @Length(1, 1024)
  scope?: string;

  @Optional()
  @IsInAnyCase(EXPIRATION_STATES)
  state?: string;

  /** Rows per page. An export is not limited by default. */
  @Optional()
  @IsInt()
  @Min(1)
  @Max(1000)
  limit?: number;

  @Optional()
  @IsString()
  cursor?: string;

  /** Overrides the Accept header. */
  @Optional()
  @IsInAnyCase(FORMATS)
  format?: string;
}

/** Query of GET /ops/verify. Without a tenant, it verifies all tenants, in pages. */
export class VerifyQueryDto {
  @Optional()
  @IsString()
  @Length(1, 64)
  tenant?: string;

  @Optional()
  @IsString()
  cursor?: string;
}
