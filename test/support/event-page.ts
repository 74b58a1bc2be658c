import { categoryOf, EVENT_CATEGORIES, type EventCategory } from '../../src/ledger/event-types.js';
import type { MemberKind } from '../../src/events/event-members.js';
import { EVENT_PAYLOADS, type EventPayload, membersOfEvent } from '../../src/events/event-payloads.js';
import type { Json } from './holdfast.js';

const TITLES: Readonly<Record<EventCategory, string>> = {
  budget: 'Budgets and direct debits',
  reservation: 'Reservations',
  tenant: 'Tenants',
  policy: 'Policies and quotas',
  api_key: 'API keys',
  webhook: 'Subscriptions',
  system: 'The system',
};

const KINDS: Readonly<Record<MemberKind, string>> = {
  int64: 'integer (int64)',
  number: 'number',
  flag: 'boolean',
  instant: 'time (RFC 3339, UTC)',
  list: 'list of strings',
  json: 'object',
  text: 'string',
  object: 'object',
};

const INTRO = `# Events

\`npm run compatibility\` writes this page: the types and members from \`src/events/event-payloads.ts\`, which also describes the \`webhooks\` of
\`/openapi.json\`, and the examples from events that the scripts emit in the test \`http/event-payloads\`, with other names and times.
\`system.webhook_test\` is only sent by the test of a subscription, and is in no log. [Webhooks](../webhooks.md) says how to receive events and verify them. \`GET /v1/events\` and \`GET /v1/admin/events\` list them.

Each event has the same members around its \`data\`:
`;

const AROUND = `
\`event_id\` is the same in each attempt and each replay. \`category\` is what a subscription can ask for: tenants can ask for \`budget\`, \`reservation\` and
\`tenant\`, operators for all. \`actor\`, \`scope\`, \`request_id\`, \`trace_id\`, \`correlation_id\` and \`metadata\` are absent where there is none. Amounts are integers in
the \`unit\` of the event, up to 64 bits: read them with a parser that keeps them. A member is absent where it does not apply, and more may be added.
`;

/** docs/reference/events.md, with the first event of each type as its example. */
export function eventPage(events: readonly Json[], tenantId: string): string {
  const shown = (value: unknown): string =>
    JSON.stringify(neutral(value, tenantId), null, 2).replaceAll(
      /\[\s+([^[\]{}]*?)\s+\]/g,
      (_, items: string) => `[${items.replaceAll(/\s*\n\s*/g, ' ')}]`,
    );
  const example = (type: string): Json => {
    const found = events.find(({ event_type: one }) => one === type);
    if (found === undefined) {
      throw new Error(`no event of the type ${type}`);
    }
    return found;
  };
  const types = Object.entries<EventPayload>(EVENT_PAYLOADS);
  const sections = EVENT_CATEGORIES.map((category) => {
    const own = types.filter(([type]) => categoryOf(type) === category);
    const parts = own.map(([type, payload]) =>
      [
        `### \`${type}\``,
        payload.says,
        [
          '| Member of `data` | Type | |\n| --- | --- | --- |',
          ...membersOfEvent(payload).map(
            ([name, { is, says }]) => `| \`${name}\` | ${KINDS[is]} | ${says} |`,
          ),
        ].join('\n'),
        `\`\`\`json\n${shown(example(type).data)}\n\`\`\``,
      ].join('\n\n'),
    );
    return [`## ${TITLES[category]}`, ...parts].join('\n\n');
  });
  const whole = `\`\`\`json\n${shown(example('reservation.denied'))}\n\`\`\`\n`;
  return `${INTRO}\n${whole}${AROUND}\n${sections.join('\n\n')}\n`;
}

const IDS: Readonly<Record<string, string>> = {
  evt: 'evt_019abcdef012a000',
  evn: 'evn_3a5FOjK3gzP019fb2c1a4e7',
  rsv: 'rsv_3a9tBbH8kL1pY8DqS3',
  ldg: 'ldg_3aDnSBhXoHTkThfwkD',
  crd: 'crd_3aQm8vXc2LpT6WnZrK',
  key: 'key_3aAclSIZvuN5E8znWZ',
  pol: 'pol_3a9TnEyYo9UKyaEyn8',
  whsub: 'whsub_3abOartZIsZZcTIIps',
  req: 'req_0123456789abcdef01234567',
};

/** A value without what differs from run to run. */
function neutral(value: unknown, tenantId: string): unknown {
  if (Array.isArray(value)) {
    return value.map((entry) => neutral(entry, tenantId));
  }
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, neutral(entry, tenantId)]));
  }
  return typeof value === 'string' ? neutralText(value.replaceAll(tenantId, 'acme')) : value;
}

function neutralText(text: string): string {
  const [, prefix = ''] = /^([a-z]+)_[0-9A-Za-z]{10,}$/.exec(text) ?? [];
  return (IDS[prefix] ?? text)
    .replace(/^\d{4}-\d\d-\d\dT.*Z$/, '2026-11-23T09:12:04.118Z')
    .replace(/^\d{4}-\d\d-\d\d$/, '2026-11-23')
    .replace(/^[0-9a-f]{32}$/, '0af7651916cd43dd8448eb211c80319c')
    .replace(/^denial:[0-9a-f]{40}$/, 'denial:2fd4e1c67a2d28fced849ee1bb76e7391b93eb12')
    .replace(/^k-[0-9a-f]{16}$|^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 'k-2f4a6c8e0b1d3f57');
}
