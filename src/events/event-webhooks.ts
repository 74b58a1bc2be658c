import { type AnswerSchema, FLAG, FREE, INT64, list, ref, TEXT, TIME } from '../answers/index.js';
import type { DocumentedWebhooks } from '../http/index.js';
import type { EventMember, MemberKind } from './event-members.js';
import { EVENT_PAYLOADS, type EventPayload, membersOfEvent } from './event-payloads.js';

const KINDS: Readonly<Record<MemberKind, AnswerSchema>> = {
  int64: INT64,
  number: { type: 'number', format: 'double' },
  flag: FLAG,
  instant: TIME,
  list: list(TEXT),
  json: FREE,
  text: TEXT,
  object: FREE,
};

const header = (name: string, description: string, required = true) =>
  ({ name, in: 'header', required, description, schema: TEXT }) as const;

/** What each delivery has beside its body. */
const HEADERS = [
  header('X-Cycles-Event-Id', 'The id of the event, the same in each attempt: deduplicate by it.'),
  header('X-Cycles-Event-Type', 'The type of the event.'),
  header('X-Cycles-Signature', '`sha256=` and the HMAC-SHA256 of the body, in hex, keyed with the secret.'),
  header('X-Cycles-Trace-Id', 'The trace of the request that caused the event.'),
  header('traceparent', 'The same, as W3C Trace Context.'),
  header('X-Request-Id', 'The request that caused the event, if one did.', false),
  header('webhook-id', 'The id of the event, for Standard Webhooks.'),
  header('webhook-timestamp', 'The time of the attempt, in seconds since 1970.'),
  header(
    'webhook-signature',
    'The signatures of Standard Webhooks: two for a day after a rotation of the secret.',
  ),
];

const RESPONSES = {
  '2XX': { description: 'The event is delivered.' },
  '410': {
    description:
      'The endpoint is gone. Ends the subscription if its options say so, and is a failure otherwise.',
  },
  default: {
    description:
      'The delivery failed, and is repeated, at the earliest after `Retry-After`, which counts up to an hour.',
  },
};

/** What Holdfast sends to the endpoints of subscriptions, by type of event, for the OpenAPI document. */
export function eventWebhooks(): DocumentedWebhooks {
  const webhooks = Object.entries<EventPayload>(EVENT_PAYLOADS).map(([type, payload]): [string, object] => [
    type,
    {
      post: {
        operationId: `on${words(type)}`,
        summary: payload.says,
        description: `The event \`${type}\`: ${payload.says}`,
        tags: ['Events'],
        security: [],
        parameters: HEADERS.map(({ name }) => ({ $ref: `#/components/parameters/${name}` })),
        requestBody: {
          required: true,
          content: { 'application/json': { schema: eventOf(type, payload) } },
        },
        responses: RESPONSES,
      },
    },
  ]);
  return {
    webhooks: Object.fromEntries<object>(webhooks),
    headers: Object.fromEntries(HEADERS.map((one) => [one.name, one])),
  };
}

/** `budget.over_limit_exited` as `BudgetOverLimitExited`. */
function words(type: string): string {
  return type.replaceAll(/(?:^|[._])([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

function eventOf(type: string, payload: EventPayload): object {
  return {
    allOf: [
      ref('Event'),
      {
        type: 'object',
        properties: {
          event_type: { const: type, description: 'The type of this event.' },
          data: {
            type: 'object',
            description: payload.says,
            properties: Object.fromEntries(
              membersOfEvent(payload).map(([name, member]) => [name, schemaOf(member)]),
            ),
          },
        },
      },
    ],
  };
}

function schemaOf({ is, says }: EventMember): AnswerSchema {
  return { ...KINDS[is], description: says };
}
