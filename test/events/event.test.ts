import { describe, expect, test } from '@jest/globals';
import { eventJson, toEvent, traceOf } from '../../src/events/event.js';
import { categoryOf, EVENT_TYPES } from '../../src/ledger/event-types.js';

const of = (fields: Record<string, string>) =>
  toEvent('1f', '1700000000000-0', new Map(Object.entries(fields)));
const TRACE = 'a'.repeat(32);

describe('an event read from its entry', () => {
  test('names its place, its time and only known actors', () => {
    expect(of({ ty: 'tenant.created', tn: 'acme', ac: 'admin', tenant_id: 'acme' })).toEqual({
      event_id: 'evt_18bcfe568001f000',
      event_type: 'tenant.created',
      category: 'tenant',
      timestamp: '2023-11-14T22:13:20.000Z',
      tenant_id: 'acme',
      actor: { type: 'admin' },
      source: 'holdfast',
      data: { tenant_id: 'acme', changed_fields: [] },
    });
    expect(
      of({
        ty: 'tenant.created',
        tn: 'acme',
        ac: 'api_key',
        ki: 'key_1',
        rq: 'req_1',
        tr: `${TRACE}-00`,
        co: 'c',
      }),
    ).toMatchObject({
      actor: { type: 'api_key', key_id: 'key_1' },
      request_id: 'req_1',
      trace_id: TRACE,
      correlation_id: 'c',
    });
  });

  test('keeps amounts of 64 bits exact, and has the same bytes each time', () => {
    const fields = {
      ty: 'budget.created',
      tn: 'acme',
      ac: 'admin',
      sc: 'tenant:acme',
      new_remaining: '-9223372036854775808',
      new_allocated: '9007199254740993',
    };
    expect(eventJson(of(fields))).toContain(
      '"new_state":{"remaining":-9223372036854775808,"allocated":9007199254740993}',
    );
    expect(eventJson(of(fields))).toBe(eventJson(of(fields)));
  });

  test('has the numbers of a crossed threshold', () => {
    const { data } = of({
      ty: 'budget.threshold_crossed',
      tn: 'acme',
      ac: 'api_key',
      sc: 'tenant:acme',
      unit: 'TOKENS',
      threshold: '0.8',
      utilization: '0.8125',
      direction: 'rising',
      spent: '7',
    });
    expect(data).toEqual({
      scope: 'tenant:acme',
      unit: 'TOKENS',
      threshold: 0.8,
      utilization: 0.8125,
      direction: 'rising',
      spent: 7,
    });
  });

  test.each<[string, Record<string, string>]>([
    ['no fields', {}],
    [
      'invalid figures',
      { ty: 'budget.funded', new_remaining: 'odd', previous_debt: '1e5', metadata: '{', changed_fields: '[' },
    ],
    [
      'a request that is not JSON',
      { ty: 'reservation.denied', tn: 'acme', ak: 'k', an: 'n', at: '[', dm: '{' },
    ],
    ['invalid times', { ty: 'reservation.expired', expired_at: 'soon', created_at: '99999999999999999' }],
    ['an invalid trace', { ty: 'reservation.expired', tr: 'odd' }],
  ])('is readable with %s', (_what, fields) => {
    const event = of(fields);
    expect(eventJson(event)).toContain('"event_id":"evt_18bcfe568001f000"');
    expect(event).not.toHaveProperty('trace_id');
    expect(event).not.toHaveProperty('metadata');
  });
});

test('a trace has the flags of the request that started it, and 01 if none are stored', () => {
  expect(traceOf(new Map([['tr', `${TRACE}-00`]]))).toEqual({ traceId: TRACE, flags: '00' });
  expect(traceOf(new Map([['tr', TRACE]]))).toEqual({ traceId: TRACE, flags: '01' });
  expect(traceOf(new Map())).toBeUndefined();
});

test('every type has the category that its name begins with, quotas that of policies, and custom types the one in their name', () => {
  const expected = (type: string): string => (type.split('.')[0] as string).replace('quota', 'policy');
  expect(EVENT_TYPES.filter((type) => categoryOf(type) !== expected(type))).toEqual([]);
  expect(
    ['custom.reservation.quarantined', 'custom.direct_debit.applied', 'custom.billing.sent', 'custom'].map(
      categoryOf,
    ),
  ).toEqual(['reservation', 'budget', 'system', 'system']);
});
