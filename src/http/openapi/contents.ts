/** The sections of the documentation, in the order in which a reader needs them; inside a section, in the order of a life. */
export const CONTENTS: readonly {
  readonly tag: string;
  readonly description: string;
  readonly operations: readonly string[];
}[] = [
  {
    tag: 'Reservations',
    description: 'Hold budget before the work, and settle it afterwards.',
    operations: [
      'createReservation',
      'createReservationSet',
      'commitReservation',
      'refundReservation',
      'releaseReservation',
      'extendReservation',
      'getReservation',
      'listReservations',
      'decide',
      'createEvent',
      'refundEvent',
      'sendBatch',
    ],
  },
  {
    tag: 'Evidence',
    description:
      'Signed proof of what an operation answered. Public: the id of an envelope is what entitles to it.',
    operations: ['getEvidence', 'getEvidenceJwks'],
  },
  { tag: 'Balances', description: 'What is left, by scope.', operations: ['getBalances'] },
  {
    tag: 'Usage',
    description: 'Where it went, from the archive.',
    operations: ['getUsage', 'getUsageOfAll'],
  },
  {
    tag: 'Tenants',
    description: 'Each tenant has its own keys, budgets and policies.',
    operations: ['createTenant', 'getTenant', 'listTenants', 'updateTenant', 'bulkActionTenants'],
  },
  {
    tag: 'API keys',
    description: "The tenants' credentials.",
    operations: [
      'createApiKey',
      'listApiKeys',
      'updateApiKey',
      'validateApiKey',
      'introspectAuth',
      'revokeApiKey',
      'findApiKey',
    ],
  },
  {
    tag: 'Budgets',
    description: 'A budget is one ledger for a scope and a unit.',
    operations: [
      'createBudget',
      'lookupBudget',
      'listBudgets',
      'fundBudget',
      'bulkActionBudgets',
      'updateBudget',
      'updateBudgetPeriod',
      'getBudgetRecurrence',
      'setBudgetRecurrence',
      'removeBudgetRecurrence',
      'listBudgetHolds',
      'listLiveHolds',
      'getBudgetThresholds',
      'getBudgetWindows',
      'setBudgetWindows',
      'removeBudgetWindows',
      'setBudgetTemplate',
      'listBudgetTemplates',
      'getBudgetTemplate',
      'deleteBudgetTemplate',
      'getBudgetOrigin',
      'grantCredit',
      'grantCredits',
      'listCredits',
      'listEndingCredits',
      'listOwnCredits',
      'updateCredit',
      'voidCredit',
      'freezeBudget',
      'unfreezeBudget',
    ],
  },
  {
    tag: 'Policies',
    description: 'Caps, lease limits and overage policies for the scopes that match a pattern.',
    operations: ['createPolicy', 'listPolicies', 'updatePolicy'],
  },
  {
    tag: 'Actions',
    description:
      'The kinds of actions, whose registry is public, and what the quotas of policies have counted.',
    operations: ['listActionKinds', 'getActionKind', 'listActionQuotaCounters', 'resetActionQuotaCounter'],
  },
  {
    tag: 'Webhooks',
    description: "A tenant's subscriptions to its own events.",
    operations: [
      'createTenantWebhook',
      'getTenantWebhook',
      'listTenantWebhooks',
      'updateTenantWebhook',
      'testTenantWebhook',
      'listTenantWebhookDeliveries',
      'deleteTenantWebhook',
    ],
  },
  {
    tag: 'Webhook administration',
    description: 'Subscriptions of any owner, and where webhooks may be sent.',
    operations: [
      'createWebhookSubscription',
      'getWebhookSubscription',
      'listWebhookSubscriptions',
      'updateWebhookSubscription',
      'testWebhookSubscription',
      'listWebhookDeliveries',
      'replayEvents',
      'bulkActionWebhooks',
      'getWebhookOptions',
      'setWebhookOptions',
      'deleteWebhookSubscription',
      'getWebhookSecurityConfig',
      'updateWebhookSecurityConfig',
    ],
  },
  {
    tag: 'Events',
    description: 'The log of everything that changed. It is also what webhooks deliver.',
    operations: ['listTenantEvents', 'listEvents', 'getEvent'],
  },
  {
    tag: 'Operators',
    description:
      'People and machines that run the deployment, each with a name, a role and a key. `ADMIN_API_KEY` is the first key.',
    operations: [
      'createOperator',
      'listOperators',
      'getOperator',
      'updateOperator',
      'rotateOperator',
      'revokeOperator',
    ],
  },
  {
    tag: 'Audit',
    description: 'Who called which operation, and how it ended.',
    operations: ['listAuditLogs'],
  },
  {
    tag: 'Dashboard',
    description: 'The figures of the whole deployment, and of its tenants.',
    operations: ['getAdminOverview', 'listTenantSums'],
  },
  {
    tag: 'Operations',
    description: "Holdfast's own operations for those who run it.",
    operations: [
      'getReservationHistory',
      'listRefusedRequests',
      'listExpirations',
      'countExpirations',
      'verifyLedger',
      'getSweeper',
      'cleanupReservations',
      'listQuarantine',
      'inspectQuarantined',
      'decideQuarantined',
      'listEventDeliveries',
      'getWebhookDelivery',
      'resendWebhookDelivery',
      'setExpiryPolicy',
      'getTenantChargeOnExpiry',
      'setTenantChargeOnExpiry',
      'getPolicyChargeOnExpiry',
      'setPolicyChargeOnExpiry',
      'removePolicyChargeOnExpiry',
      'listDeclaredActionKinds',
      'getTenantLimits',
      'replaceTenantLimits',
      'removeTenantLimits',
    ],
  },
  {
    tag: 'Test clock',
    description: 'Time that passes when a test says so. Only with HOLDFAST_TEST_CLOCK=true.',
    operations: ['getTestClock', 'advanceTestClock'],
  },
  {
    tag: 'Documentation',
    description: 'This page and its source.',
    operations: ['getOpenApiDocument', 'getDocumentationPage', 'getDocumentationFile'],
  },
  {
    tag: 'Health and metrics',
    description: 'For load balancers and Prometheus.',
    operations: [
      'getLiveness',
      'getReadiness',
      'getActuatorHealth',
      'getActuatorLiveness',
      'getActuatorReadiness',
      'getMetrics',
      'getActuatorMetrics',
    ],
  },
];

/** Every operation id, in the order of the sections. */
export const OPERATION_ORDER: readonly string[] = CONTENTS.flatMap(({ operations }) => operations);

const DESCRIPTION = `A reservation and budget ledger. It speaks the Cycles protocol; paths under /ops, /health and /metrics are its own.`;

const FIRST_STEPS = `The examples work as they stand, in this order:

1. Authorize with the admin key, and send \`POST /v1/admin/tenants\`, \`POST /v1/admin/api-keys\` and \`POST /v1/admin/budgets\`. After the first session of the README, only the second of them: the tenant and the budget are there.
2. Authorize with the \`key_secret\` of the new API key, and reserve, commit and look at the balances.

Ids in paths come from earlier answers. Where an operation takes both keys, an example that names the tenant is for the admin key; an API key names its tenant itself. A repeated idempotency key repeats the first answer: choose a new one for each new request.`;

const NO_OPERATORS =
  'This port serves the runtime plane. The operations of operators, and their description, are on another port of this deployment.';

/** @param withOperators whether the document describes the operators' plane, too */
export function descriptionOf(withOperators: boolean): string {
  return `${DESCRIPTION}\n\n${withOperators ? FIRST_STEPS : NO_OPERATORS}`;
}
