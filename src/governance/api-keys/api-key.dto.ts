import { ArrayMaxSize, IsArray, IsIn, IsString, type ValidationArguments } from 'class-validator';
import { isScopeFilterEntry, type Permission, PERMISSIONS } from '../../auth/index.js';
import { TENANT_ID_PATTERN } from '../../ledger/index.js';
import {
  IsDateTime,
  IsFreeObject,
  Length,
  ListQueryDto,
  Matches,
  MaxLength,
  Optional,
  Satisfies,
} from '../../wire/index.js';

/** The length of the longest scope. */
const SCOPE_FILTER_ENTRY_MAX_LENGTH = 1024;

function nameUnknown({ value }: ValidationArguments): string {
  const given: readonly unknown[] = Array.isArray(value) ? value : [value];
  const unknown = given.find((entry) => !PERMISSIONS.some((permission) => permission === entry));
  // The value may be any JSON, including what cannot be printed: a bigint, or deeply nested arrays.
  const shown =
    typeof unknown === 'string' ? JSON.stringify(unknown.slice(0, 64)) : 'an entry that is not a string';
  return `permissions: ${shown} is not a permission; allowed: ${PERMISSIONS.join(', ')}`;
}

/** The properties that both create and update accept. */
class ApiKeyPropertiesDto {
  @Optional(MaxLength(1024))
  description?: string;

  @Optional()
  @IsArray()
  @ArrayMaxSize(100)
  @IsIn(PERMISSIONS, { each: true, message: nameUnknown })
  permissions?: Permission[];

  @Optional()
  @IsArray()
  @ArrayMaxSize(100)
  @MaxLength(SCOPE_FILTER_ENTRY_MAX_LENGTH, { each: true })
  @Satisfies(
    'entries of level:value segments joined by /, such as workspace:eng or tenant:acme/agent:*',
    (value) =>
      Array.isArray(value) && value.every((entry) => typeof entry === 'string' && isScopeFilterEntry(entry)),
  )
  scope_filter?: string[];

  @Optional(IsFreeObject())
  metadata?: Record<string, unknown>;
}

/** ApiKeyCreateRequest of cycles-governance-admin-v0.1.25. */
export class ApiKeyCreateDto extends ApiKeyPropertiesDto {
  @Matches(TENANT_ID_PATTERN)
  tenant_id!: string;

  @Length(1, 256)
  name!: string;

  @Optional(IsDateTime())
  expires_at?: string;
}

/** The body of updateApiKey of cycles-governance-admin-v0.1.25. */
export class ApiKeyUpdateDto extends ApiKeyPropertiesDto {
  @Optional(Length(1, 256))
  name?: string;
}

export const API_KEY_STATUSES = ['ACTIVE', 'REVOKED', 'EXPIRED'] as const;
export type ApiKeyStatus = (typeof API_KEY_STATUSES)[number];

export const API_KEY_SORT_KEYS = [
  'key_id',
  'name',
  'tenant_id',
  'status',
  'created_at',
  'expires_at',
] as const;

export class ApiKeyListQueryDto extends ListQueryDto {
  @Optional(IsString())
  tenant_id?: string;

  @Optional(IsIn(API_KEY_STATUSES))
  status?: ApiKeyStatus;

  @Optional(IsIn(API_KEY_SORT_KEYS))
  sort_by?: (typeof API_KEY_SORT_KEYS)[number];
}

export class ApiKeyRevokeQueryDto {
  @Optional(MaxLength(512))
  reason?: string;
}
