import { expect, test } from '@jest/globals';
import { GIVEN_FIELDS } from '../../src/reservations/given-fields.js';
import { expectRefusal, expectStatus, type Json, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();

/** A value for each given field. A field without one is not tested, so a new one needs a line here. */
const SAMPLES: Readonly<Record<string, unknown>> = {
  'action.kind': 'llm.completion',
  'action.name': 'a model',
  'action.tags': ['a', 'b'],
  'action.policy_keys': { host: 'example.com' },
  'subject.dimensions': { team: 'red' },
  'request.metadata': { order: 7 },
};

const nameOf = ({ of, member }: (typeof GIVEN_FIELDS)[number]): string => `${of}.${member}`;

function membersOf(of: string): Record<string, unknown> {
  return Object.fromEntries(
    GIVEN_FIELDS.filter((field) => field.of === of).map((field) => [field.member, SAMPLES[nameOf(field)]]),
  );
}

/** Every field that a reserve can give. */
function given(tenant: TestTenant): Record<string, unknown> {
  return {
    subject: { tenant: tenant.id, ...membersOf('subject') },
    action: membersOf('action'),
    ...membersOf('request'),
  };
}

/** What an answer shows of the given fields. `request` is where those of the request itself are. */
function shown(answer: Json, request: Json = answer): Record<string, unknown> {
  return Object.fromEntries(
    GIVEN_FIELDS.map((field) => [
      nameOf(field),
      (field.of === 'request' ? request : answer[field.of])?.[field.member],
    ]),
  );
}

test('every field that a reserve gives has a sample here', () => {
  expect(GIVEN_FIELDS.map(nameOf).sort()).toEqual(Object.keys(SAMPLES).sort());
});

test('every field that a reserve gives is shown by GET, the list, the audit view and the event of a denial', async () => {
  const tenant = await on.holdfast.createTenant();
  await on.holdfast.createBudget(tenant, '', 100);
  const get = async (path: string): Promise<Json> =>
    expectStatus(await on.holdfast.call('GET', path, { key: tenant.key, extended: true }), 200);
  const { reservation_id: id } = expectStatus(await on.holdfast.reserve(tenant, 1, given(tenant)), 200);
  expect(shown(await get(`/v1/reservations/${id}`))).toEqual(SAMPLES);
  const { reservations } = await get(`/v1/reservations?tenant=${tenant.id}&include=metadata`);
  expect(shown(reservations[0])).toEqual(SAMPLES);
  const { request } = expectStatus(await on.holdfast.admin('GET', `/ops/reservations/${id}`), 200);
  expect(shown(request)).toEqual(SAMPLES);
  expectRefusal(await on.holdfast.reserve(tenant, 1000, given(tenant)), 409, 'BUDGET_EXCEEDED');
  const { events } = expectStatus(
    await on.holdfast.admin('GET', `/v1/admin/events?tenant_id=${tenant.id}&event_type=reservation.denied`),
    200,
  );
  const { data } = events[0];
  // EventDataReservationDenied has the subject and the action.
  expect([data.subject, data.action]).toMatchObject([membersOf('subject'), membersOf('action')]);
});
