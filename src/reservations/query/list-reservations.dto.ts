import { IsArray, IsInt, IsString, Max, Min } from 'class-validator';
import { IsInAnyCase, IsWindowBound, Length, Optional } from '../../wire/index.js';
import { IDEMPOTENCY_KEY_MAX_LENGTH, Level } from '../request-parts.dto.js';

/** ReservationStatus of the protocol. */
export const RESERVATION_STATUSES = ['ACTIVE', 'COMMITTED', 'RELEASED', 'EXPIRED'] as const;

export const SORT_KEYS = [
  'reservation_id',
  'tenant',
  'scope_path',
  'status',
  'reserved',
  'created_at_ms',
  'expires_at_ms',
] as const;
export type SortKey = (typeof SORT_KEYS)[number];

/** Query of GET /v1/reservations. Blank bounds of a window, a blank tenant and a blank cursor count as left out. */
export class ListReservationsQueryDto {
  @Optional()
  @IsString()
  @Length(1, IDEMPOTENCY_KEY_MAX_LENGTH)
  idempotency_key?: string;

  @Optional()
  @IsInAnyCase(RESERVATION_STATUSES)
  status?: string;

  /** Whatever is not the tenant of the key is refused as foreign, so its form does not matter. */
  @Optional()
  @IsString()
  tenant?: string;

  @Level()
  workspace?: string;

  @Level()
  app?: string;

  @Level()
  workflow?: string;

  @Level()
  agent?: string;

  @Level()
  toolset?: string;

  @Optional()
  @IsWindowBound()
  from?: string;

  @Optional()
  @IsWindowBound()
  to?: string;

  @Optional()
  @IsWindowBound()
  expires_from?: string;

  @Optional()
  @IsWindowBound()
  expires_to?: string;

  @Optional()
  @IsWindowBound()
  finalized_from?: string;

  @Optional()
  @IsWindowBound()
  finalized_to?: string;

  @Optional()
  @IsInAnyCase(SORT_KEYS)
  sort_by?: string;

  @Optional()
  @IsInAnyCase(['asc', 'desc'])
  sort_dir?: string;

  /** Names that are not known are ignored: another version may know them. */
  @Optional()
  @IsArray()
  @IsString({ each: true })
  include?: string[];

  @Optional()
  @IsInt()
  @Min(1)
  @Max(200)
  limit?: number;

  @Optional()
  @IsString()
  cursor?: string;
}
