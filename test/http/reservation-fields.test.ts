import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { generateEvidenceKeys } from '../../src/config/evidence-keys.js';
import { stringifyJson } from '../../src/wire/exact-json.js';
import {
  type Answer,
  expectRefusal,
  expectStatus,
  Holdfast,
  type Json,
  reserveBody,
  type TestTenant,
} from '../support/holdfast.js';

/**
 * Where each field of a reserve can be read again; a name that begins with `x-` is a header. A field that the API takes and the table lacks fails here, and so does a place that
 * has it and should not, or the other way round.
 */

type Place = 'get' | 'list' | 'long_list' | 'history' | 'denial' | 'observed' | 'evidence';

const EVERYWHERE: readonly Place[] = [
  'get',
  'list',
  'long_list',
  'history',
  'denial',
  'observed',
  'evidence',
];
/** What the protocol's schema of a reservation lacks, and of its events. */
const TERMS: readonly Place[] = ['history', 'evidence'];

/** Values that occur nowhere else in an answer. */
const FIELDS: Readonly<Record<string, readonly [value: unknown, places: readonly Place[]]>> = {
  idempotency_key: ['field-key-1', EVERYWHERE],
  'subject.workspace': ['field-workspace', EVERYWHERE],
  'subject.app': ['field-app', EVERYWHERE],
  'subject.workflow': ['field-workflow', EVERYWHERE],
  'subject.agent': ['field-agent', EVERYWHERE],
  'subject.toolset': ['field-toolset', EVERYWHERE],
  'subject.dimensions': [{ purpose: 'field-dimension' }, EVERYWHERE],
  'action.kind': ['llm.completion', EVERYWHERE],
  'action.name': ['field-name', EVERYWHERE],
  'action.tags': [['field-tag'], EVERYWHERE],
  // The protocol has no place for them in its envelopes.
  'action.policy_keys': [
    { host: 'field.example.com' },
    ['get', 'list', 'long_list', 'history', 'denial', 'observed'],
  ],
  'estimate.amount': [7654, EVERYWHERE],
  ttl_ms: [123_457, TERMS],
  grace_period_ms: [4321, TERMS],
  overage_policy: ['ALLOW_WITH_OVERDRAFT', TERMS],
  metadata: [{ note: 'field-metadata' }, ['get', 'list', 'history', 'evidence']],
  // Neither the protocol's request, which envelopes have, nor its events and rows have a place for it.
  'x-holdfast-charge-on-expiry': [6543, ['history']],
};

/** Which say who asks, what is counted, and what is done with the request. Other tests tell them apart. */
const OTHERS = [
  ...['subject.tenant', 'estimate.unit', 'dry_run', 'observe_mode'],
  ...['x-idempotency-key', 'x-holdfast-explain', 'x-holdfast-wait-ms'],
];

let holdfast: Holdfast;
let rich: TestTenant;
let poor: TestTenant;
/** Whose metadata is long. */
let wordy: TestTenant;
const texts = {} as Record<Place, string>;

beforeAll(async () => {
  holdfast = await Holdfast.start({
    EVIDENCE_SERVER_ID: 'https://cycles.example.com/v1',
    EVIDENCE_KEYS: generateEvidenceKeys(1_700_000_000_000),
  });
  [rich, poor, wordy] = (await Promise.all([1, 2, 3].map(() => holdfast.createTenant()))) as [
    TestTenant,
    TestTenant,
    TestTenant,
  ];
  await holdfast.createBudget(rich, '', 1_000_000);
  await holdfast.createBudget(wordy, '', 1_000_000);
  await holdfast.createBudget(poor, '', 1);
  const granted = expectStatus(await reserve(rich), 200);
  expectRefusal(await reserve(poor), 409, 'BUDGET_EXCEEDED');
  expect(expectStatus(await reserve(poor, { observe_mode: 'OBSERVE' }), 200).decision).toBe('DENY');
  const path = `/v1/reservations/${granted.reservation_id}`;
  texts.get = (await holdfast.call('GET', path, { key: rich.key, extended: true })).text;
  texts.list = (
    await holdfast.call('GET', '/v1/reservations?include=metadata', { key: rich.key, extended: true })
  ).text;
  const long = { idempotency_key: 'field-key-1', metadata: { note: 'm'.repeat(1100) } };
  expectStatus(await reserve(wordy, long), 200);
  texts.long_list = (await holdfast.call('GET', '/v1/reservations', { key: wordy.key, extended: true })).text;
  texts.history = (await holdfast.admin('GET', `/ops/reservations/${granted.reservation_id}`)).text;
  texts.evidence = (await holdfast.call('GET', `/v1/evidence/${granted.cycles_evidence.evidence_id}`)).text;
  texts.denial = await eventOf('reservation.denied');
  texts.observed = await eventOf('reservation.observed_denied');
});
afterAll(() => holdfast.stop());

function reserve(tenant: TestTenant, more: Record<string, unknown> = {}): Promise<Answer> {
  const body: Json = reserveBody(tenant, 0);
  const headers: Record<string, string> = {};
  for (const [field, [value]] of Object.entries(FIELDS)) {
    const [name = '', member] = field.split('.');
    if (name.startsWith('x-')) {
      headers[name] = String(value);
    } else if (member === undefined) {
      body[name] = value;
    } else {
      body[name][member] = value;
    }
  }
  return holdfast.call('POST', '/v1/reservations', {
    key: tenant.key,
    headers,
    body: { ...body, ...more },
    extended: true,
  });
}

async function eventOf(type: string): Promise<string> {
  const answer = await holdfast.admin('GET', `/v1/admin/events?tenant_id=${poor.id}&event_type=${type}`);
  const [event] = expectStatus(answer, 200).events as Json[];
  return stringifyJson(event);
}

test('every field that a reserve may have is in the table', async () => {
  const { paths, components } = JSON.parse((await holdfast.call('GET', '/openapi.json')).text);
  const schemaOf = (schema: Json): Json =>
    schema.$ref === undefined ? schema : components.schemas[schema.$ref.split('/').at(-1)];
  const fieldsOf = (schema: Json): string[] =>
    Object.entries<Json>(schemaOf(schema).properties).flatMap(([name, part]) =>
      ['subject', 'action', 'estimate'].includes(name)
        ? fieldsOf(part).map((member) => `${name}.${member}`)
        : [name],
    );
  const { requestBody, parameters } = paths['/v1/reservations'].post;
  const taken = fieldsOf(requestBody.content['application/json'].schema);
  for (const parameter of parameters as Json[]) {
    taken.push(parameter.name.toLowerCase());
  }
  expect(taken.sort()).toEqual([...Object.keys(FIELDS), ...OTHERS].sort());
});

describe.each(Object.entries(FIELDS))('%s', (_field, [value, places]) => {
  const json = JSON.stringify(value);

  test.each(EVERYWHERE)('%s', (place) => {
    expect([place, texts[place].includes(json)]).toEqual([place, places.includes(place)]);
  });
});
