type Node = Record<string, unknown>;

/** The documents of v0.1.26, which add members to schemas of the other two documents. */
export const EXTENSIONS = {
  protocol: 'cycles-protocol-extensions-v0.1.26.yaml',
  governance: 'cycles-governance-extensions-v0.1.26.yaml',
  actions: 'cycles-action-kinds-v0.1.26.yaml',
} as const;

export type Extensions = Readonly<Record<keyof typeof EXTENSIONS, Node>>;

/** Which schema of an extension adds its properties to which schema of a plane. */
const ADDED = [
  ['runtime', 'Action', 'protocol', 'ActionExtension'],
  ['runtime', 'DecisionResponse', 'protocol', 'DecisionResponseExtension'],
  ['runtime', 'ReservationCreateResponse', 'protocol', 'ReservationCreateResponseExtension'],
  ['runtime', 'ReservationCreateRequest', 'protocol', 'ReservationCreateRequestExtension'],
  ['governance', 'Tenant', 'governance', 'TenantExtension'],
  ['governance', 'TenantCreateRequest', 'governance', 'TenantExtension'],
  ['governance', 'Policy', 'governance', 'PolicyExtension'],
  ['governance', 'PolicyCreateRequest', 'governance', 'PolicyCreateRequestExtension'],
] as const;

/** Schemas that are copied into a plane as a whole, because the properties above refer to them. */
const TAKEN_OVER = [
  ['runtime', 'protocol', ['DenyDetail', 'ActionQuotaViolation', 'ObserveModeEnum']],
  [
    'runtime',
    'actions',
    ['ActionPolicyKeys', 'ActionKindRegistry', 'ActionKind', 'ActionPolicyKeySpec', 'ActionRiskClass'],
  ],
  [
    'governance',
    'protocol',
    [
      'DenyDetail',
      'ActionQuotaViolation',
      'ObserveModeEnum',
      'EventDataObservedDenied',
      'EventDataObservedAllowed',
      'EventDataQuotaThresholdApproaching',
      'EventDataQuotaCounterReset',
    ],
  ],
  [
    'governance',
    'actions',
    [
      'ActionQuota',
      'RiskClassQuota',
      'ActionRiskClass',
      'ActionQuotaWindow',
      'ActionQuotaState',
      'ActionQuotaCounterListResponse',
      'ActionQuotaCounterResetRequest',
      'ActionQuotaCounterResetResponse',
    ],
  ],
] as const;

/**
 * Operations of an extension, by the plane that they are copied into, with the schemas that only they use.
 */
const OPERATIONS = [
  ['runtime', '/v1/action-kinds'],
  ['runtime', '/v1/action-kinds/{kind}'],
  ['governance', '/v1/admin/action-quota-counters'],
  ['governance', '/v1/admin/action-quota-counters/reset'],
] as const;

/**
 * Properties that the extensions describe only in prose, because their documents do not refer to each other.
 */
const REFERENCES: Readonly<Record<string, unknown>> = {
  policy_keys: { $ref: '#/components/schemas/ActionPolicyKeys' },
  action_quotas: { type: 'array', maxItems: 50, items: { $ref: '#/components/schemas/ActionQuota' } },
  risk_class_quotas: { type: 'array', maxItems: 20, items: { $ref: '#/components/schemas/RiskClassQuota' } },
};

/**
 * Holdfast's own, as its EVOLUTION CONTRACT lets fields be added: only reservations that were granted in a set or refunded have them, so nobody
 * meets them who uses neither.
 */
const OWN_MEMBERS = {
  reservation_set_id: { type: 'string' },
  refunded: { $ref: '#/components/schemas/Amount' },
};

function partOf(root: unknown, ...path: readonly string[]): Node {
  let node = root;
  for (const name of path) {
    node = (node as Node | undefined)?.[name];
  }
  if (typeof node !== 'object' || node === null) {
    throw new Error(`a document has nothing at ${path.join('/')}`);
  }
  return node as Node;
}

const schemaOf = (document: unknown, name: string): Node => partOf(document, 'components', 'schemas', name);

function addProperties(schema: Node, extension: Node): void {
  const properties = partOf(schema, 'properties');
  for (const [name, added] of Object.entries(partOf(extension, 'properties'))) {
    properties[name] = REFERENCES[name] ?? added;
  }
}

/** The event types of EventTypeExtension. */
const EMITTED = [
  'quota.threshold_approaching',
  'quota.counter_reset',
  'reservation.observed_denied',
  'reservation.observed_allowed',
];

/** Of operations that the protocol does not have. A key has one only if its creation names it. */
const OWN_PERMISSIONS = ['usage:read', 'refunds:create'];

/** Merges the extensions into the protocol's documents, as their authors leave to a later version. */
export function mergeExtensions(
  documents: Readonly<Record<'runtime' | 'governance', Node>>,
  extensions: Extensions,
): void {
  for (const [plane, target, document, name] of ADDED) {
    addProperties(schemaOf(documents[plane], target), schemaOf(extensions[document], name));
  }
  for (const [plane, document, names] of TAKEN_OVER) {
    for (const name of names) {
      partOf(documents[plane], 'components', 'schemas')[name] = schemaOf(extensions[document], name);
    }
  }
  for (const [plane, path] of OPERATIONS) {
    partOf(documents[plane], 'paths')[path] = partOf(extensions.actions, 'paths', path);
    Object.assign(parametersOf(documents[plane]), parametersOf(extensions.actions));
  }
  for (const name of ['ReservationSummary', 'ReservationDetail']) {
    Object.assign(partOf(schemaOf(documents.runtime, name), 'properties'), OWN_MEMBERS);
  }
  schemaOf(documents.runtime, 'ErrorCode')['enum'] = schemaOf(extensions.protocol, 'ErrorCodeExtension')[
    'enum'
  ];
  const permissions = schemaOf(extensions.governance, 'PermissionExtension')['enum'] as string[];
  schemaOf(documents.governance, 'Permission')['enum'] = [...permissions, ...OWN_PERMISSIONS];
  const types = schemaOf(documents.governance, 'EventType');
  types['enum'] = [...(types['enum'] as string[]), ...EMITTED];
  addProperties(
    bodyOf(documents.governance, '/v1/admin/policies/{policy_id}', 'patch'),
    schemaOf(extensions.governance, 'PolicyPatchExtension'),
  );
  addProperties(
    bodyOf(documents.governance, '/v1/admin/tenants/{tenant_id}', 'patch'),
    schemaOf(extensions.governance, 'TenantPatchExtension'),
  );
}

function parametersOf(document: Node): Node {
  const components = partOf(document, 'components');
  components['parameters'] ??= {};
  return components['parameters'] as Node;
}

const bodyOf = (document: Node, path: string, method: string): Node =>
  partOf(document, 'paths', path, method, 'requestBody', 'content', 'application/json', 'schema');
