export {
  type ActionKind,
  BUILT_IN_KINDS,
  builtInKind,
  hasPolicyKey,
  kindOf,
  type KindTraits,
  type PolicyKeySpec,
  REGISTRY_VERSION,
  UNREGISTERED,
} from './action-kind-registry.js';
export { QUOTA_WINDOWS, type QuotaWindow, RISK_CLASSES, RISK_COUNTER, type RiskClass } from './actions.js';
export {
  balanceJson,
  balancesJson,
  INT64_MAX,
  OBSERVE_MODES,
  type ObserveMode,
  OVERAGE_POLICIES,
  type OveragePolicy,
  amountWords,
  parseAmount,
  type Unit,
  UNITS,
} from './amount.js';
export {
  categoryOf,
  EVENT_CATEGORIES,
  EVENT_TYPES,
  type EventCategory,
  isEventType,
  TENANT_EVENT_CATEGORIES,
} from './event-types.js';
export { fingerprintOf } from './fingerprint.js';
export {
  EncodedBody,
  type ErrorCode,
  GOVERNANCE_ERROR_CODES,
  invalidField,
  PROTOCOL_ERROR_CODES,
  QueryUnavailable,
  Refusal,
  refusalIn,
  type Refused,
  RUNTIME_ERROR_CODES,
  TENANT_LIMITS,
  tenantClosed,
  type TenantLimit,
  TenantLimitExceeded,
  TooBusy,
  TooManyMatched,
} from './refusal.js';
export {
  deriveScopes,
  isWithin,
  parseScopePath,
  SCOPE_LEVELS,
  type ScopeLevel,
  scopePrefixOf,
  SEGMENT_MAX_LENGTH,
  SEGMENT_PATTERN,
  type SubjectLevels,
  subjectText,
  TENANT_ID_PATTERN,
  tenantOfScope,
  treeOrder,
} from './scopes.js';
export { headerText, oneLine, percentDecoded, percentEncoded, randomBase62 } from './text.js';
export { DAY_MS, MAX_TTL_MS, MIN_TTL_MS } from './time.js';
