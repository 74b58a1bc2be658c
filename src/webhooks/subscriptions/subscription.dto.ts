import { ArrayMaxSize, ArrayMinSize, IsArray, IsIn, IsString } from 'class-validator';
import { BulkRequestDto } from '../../bulk/index.js';
import { EVENT_CATEGORIES, EVENT_TYPES, type EventCategory } from '../../ledger/index.js';
import {
  fieldsFrom,
  FREE_OBJECT,
  IsFreeObject,
  IsInt,
  IsNumber,
  IsStringMap,
  Length,
  ListQueryDto,
  MaxJsonBytes,
  MaxLength,
  Nested,
  Obeys,
  Optional,
  PageQueryDto,
  type Rule,
  Satisfies,
  type Schema,
} from '../../wire/index.js';
import { areHeaders, HEADER_RULE } from './headers.js';

const MAX_COUNT = 2_147_483_647;
const SCOPE_FILTER_MAX_LENGTH = 1024;
const MAX_SELECTORS = 100;
const MAX_UTILIZATIONS = 20;
const DAY_S = 86_400;
const SCOPE_FILTER = 'a scope such as tenant:acme/workspace:prod, in which * matches any characters';

type Test = (value: unknown) => boolean;

const SECRET = /^(?!whsec_)|^whsec_[A-Za-z0-9+/]+={0,2}$/;
/** The characters of scopes, and the wildcard. An empty text is no filter; the dashboard sends it to clear one. */
const SCOPE_PATTERN = /^[A-Za-z0-9_.:/*-]*$/;

/** A value that passes `test`, or null to remove the setting. */
function Clearable(
  schema: Schema,
  test: Test,
  oversize: Rule['oversize'] = () => undefined,
): PropertyDecorator {
  const kind =
    schema.type === 'object' ? 'a JSON object' : `a string of at most ${schema.maxLength} characters`;
  const phrase = `${kind} as for create, or null to remove it`;
  return Obeys({
    name: 'clearable',
    test: (value) => value === null || test(value),
    schema: { ...schema, nullable: true },
    phrase,
    oversize,
  });
}

/** Any string. The target policy decides whether it is an acceptable URL. */
function IsUrlText(): PropertyDecorator {
  return Obeys({
    name: 'isUrlText',
    test: (value) => typeof value === 'string',
    schema: { type: 'string', format: 'uri' },
  });
}

/** A string of at most `maxLength` characters, counted in code points as in JSON Schema. */
function isText(maxLength: number): Test {
  return (value) =>
    typeof value === 'string' && (value.length <= maxLength || [...value].length <= maxLength);
}

const isSecret: Test = (value) => typeof value === 'string' && SECRET.test(value);

const isScopePattern: Test = (value) => typeof value === 'string' && SCOPE_PATTERN.test(value);

/** WebhookThresholdConfig of cycles-governance-admin-v0.1.25. */
export class ThresholdsDto {
  @Optional()
  @IsArray()
  @ArrayMaxSize(MAX_UTILIZATIONS)
  @IsNumber({ min: 0, max: 1 }, { each: true })
  budget_utilization?: number[];

  @Optional(IsNumber({ min: 1.5 }))
  burn_rate_multiplier?: number;

  @Optional(IsInt({ min: 60, max: DAY_S }))
  burn_rate_window_seconds?: number;

  @Optional(IsNumber({ min: 0, max: 1 }))
  denial_rate_threshold?: number;

  @Optional(IsNumber({ min: 0, max: 1 }))
  expiry_rate_threshold?: number;

  @Optional(IsNumber({ min: 0, max: 1 }))
  auth_failure_rate_threshold?: number;

  @Optional(IsInt({ min: 60, max: DAY_S }))
  rate_window_seconds?: number;
}

/** WebhookRetryPolicy of cycles-governance-admin-v0.1.25. */
export class RetryPolicyDto {
  @Optional(IsInt({ min: 0, max: 10 }))
  max_retries?: number;

  @Optional(IsInt({ min: 100, max: 60_000 }))
  initial_delay_ms?: number;

  @Optional(IsNumber({ min: 1, max: 10 }))
  backoff_multiplier?: number;

  @Optional(IsInt({ min: 1000, max: 3_600_000 }))
  max_delay_ms?: number;
}

/** The settings that both create and update accept. */
class SubscriptionSettingsDto {
  @Optional()
  @IsArray()
  @ArrayMaxSize(EVENT_CATEGORIES.length)
  @IsIn(EVENT_CATEGORIES, { each: true })
  event_categories?: EventCategory[];

  @Optional(Nested(() => ThresholdsDto))
  thresholds?: ThresholdsDto;

  @Optional()
  @Length(1, 1024)
  @Satisfies('a string, with base64 after the prefix if it starts with whsec_', isSecret)
  signing_secret?: string;

  @Optional()
  @IsStringMap({ maxEntries: 32, maxValueLength: 4096 })
  @MaxJsonBytes()
  @Satisfies(HEADER_RULE, areHeaders)
  headers?: Record<string, string>;

  @Optional(Nested(() => RetryPolicyDto))
  retry_policy?: RetryPolicyDto;

  @Optional(IsInt({ min: 1, max: MAX_COUNT }))
  disable_after_failures?: number;
}

/** WebhookCreateRequest of cycles-governance-admin-v0.1.25. */
export class SubscriptionCreateDto extends SubscriptionSettingsDto {
  @Optional(MaxLength(256))
  name?: string;

  @Optional(MaxLength(1024))
  description?: string;

  @IsUrlText()
  @MaxLength(2048)
  url!: string;

  @IsArray()
  @ArrayMinSize(1)
  @ArrayMaxSize(MAX_SELECTORS)
  @IsIn(EVENT_TYPES, { each: true })
  event_types!: string[];

  @Optional()
  @MaxLength(SCOPE_FILTER_MAX_LENGTH)
  @Satisfies(SCOPE_FILTER, isScopePattern)
  scope_filter?: string;

  @Optional(IsFreeObject())
  metadata?: Record<string, unknown>;
}

/** WebhookUpdateRequest of cycles-governance-admin-v0.1.25. In addition, null removes an optional setting, as the dashboard expects. */
export class SubscriptionUpdateDto extends SubscriptionSettingsDto {
  @Optional(Clearable({ type: 'string', maxLength: 256 }, isText(256)))
  name?: string | null;

  @Optional(Clearable({ type: 'string', maxLength: 1024 }, isText(1024)))
  description?: string | null;

  @Optional()
  @IsUrlText()
  @MaxLength(2048)
  url?: string;

  @Optional()
  @IsArray()
  @ArrayMaxSize(MAX_SELECTORS)
  @IsIn(EVENT_TYPES, { each: true })
  event_types?: string[];

  @Optional()
  @Clearable(
    { type: 'string', maxLength: SCOPE_FILTER_MAX_LENGTH },
    (value) => isText(SCOPE_FILTER_MAX_LENGTH)(value) && isScopePattern(value),
  )
  scope_filter?: string | null;

  @Optional(IsIn(['ACTIVE', 'PAUSED']))
  status?: 'ACTIVE' | 'PAUSED';

  @Optional(Clearable(FREE_OBJECT.schema, FREE_OBJECT.test, FREE_OBJECT.oversize))
  metadata?: Record<string, unknown> | null;
}

export const SUBSCRIPTION_STATUSES = ['ACTIVE', 'PAUSED', 'DISABLED'] as const;
export type SubscriptionStatus = (typeof SUBSCRIPTION_STATUSES)[number];

export const SUBSCRIPTION_SORT_KEYS = ['url', 'tenant_id', 'status', 'consecutive_failures'] as const;
export type SortKey = (typeof SUBSCRIPTION_SORT_KEYS)[number];

export class SubscriptionListQueryDto extends ListQueryDto {
  @Optional(IsString())
  tenant_id?: string;

  @Optional(IsIn(SUBSCRIPTION_STATUSES))
  status?: SubscriptionStatus;

  @Optional(IsIn(EVENT_TYPES))
  event_type?: string;

  @Optional(IsIn(SUBSCRIPTION_SORT_KEYS))
  sort_by?: SortKey;
}

/** The query of listTenantWebhooks. */
export class TenantSubscriptionListQueryDto extends PageQueryDto {
  @Optional(IsString())
  tenant?: string;

  @Optional(IsIn(SUBSCRIPTION_STATUSES))
  status?: SubscriptionStatus;
}

export class SubscriptionOwnerQueryDto {
  @Optional(IsString())
  tenant_id?: string;
}

/** WebhookBulkFilter of cycles-governance-admin-v0.1.25. */
export class WebhookBulkFilterDto extends fieldsFrom(
  SubscriptionListQueryDto,
  'status',
  'event_type',
  'search',
) {
  @Optional(Length(1, 64))
  tenant_id?: string;
}

export const BULK_ACTIONS = ['PAUSE', 'RESUME', 'DELETE'] as const;

/** WebhookBulkActionRequest of cycles-governance-admin-v0.1.25. */
export class WebhookBulkActionDto extends BulkRequestDto {
  @Nested(() => WebhookBulkFilterDto)
  filter!: WebhookBulkFilterDto;

  @IsIn(BULK_ACTIONS)
  action!: (typeof BULK_ACTIONS)[number];
}
