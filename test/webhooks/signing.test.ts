import { createHmac, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { HOLDFAST_VERSION } from '../../src/config/config.js';
import { isReservedHeader, type SignedEvent, signedHeaders } from '../../src/webhooks/signing/signing.js';
import { shows } from '../compatibility/shows.js';

const EVENT: SignedEvent = {
  eventId: 'evt_0199e51f2a03f000',
  eventType: 'reservation.expired',
  traceId: 'a'.repeat(32),
  traceFlags: '00',
  requestId: 'req_1',
};
const BODY = '{"event_id":"evt_0199e51f2a03f000","name":"Ünïcode"}';
const standardSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`;

/** Now, because verifiers refuse what is old. */
const NOW_MS = Date.now();

function headersOf({
  secrets = [standardSecret()] as [string, ...string[]],
  headers = {},
  event = EVENT,
  body = BODY,
} = {}): Record<string, string> {
  return signedHeaders({ secrets, headers, event, nowMs: NOW_MS, body });
}

describe('the headers of the protocol', () => {
  test('name the event, its trace and request, and sign the exact bytes with the UTF-8 of the whole secret', () => {
    shows('signed delivery');
    const secret = standardSecret();
    expect(headersOf({ secrets: [secret] })).toEqual({
      'content-type': 'application/json',
      'user-agent': `holdfast/${HOLDFAST_VERSION}`,
      'x-cycles-event-id': EVENT.eventId,
      'x-cycles-event-type': 'reservation.expired',
      'x-cycles-signature': `sha256=${createHmac('sha256', Buffer.from(secret, 'utf8')).update(Buffer.from(BODY, 'utf8')).digest('hex')}`,
      'x-cycles-trace-id': EVENT.traceId,
      traceparent: expect.stringMatching(new RegExp(`^00-${EVENT.traceId}-[0-9a-f]{16}-00$`)),
      'x-request-id': 'req_1',
      'webhook-id': EVENT.eventId,
      'webhook-timestamp': String(Math.floor(NOW_MS / 1000)),
      'webhook-signature': expect.stringMatching(/^v1,[A-Za-z0-9+/]{43}=$/),
    });
  });

  test('carry a fresh span in each attempt, the inbound flags if there are any, and 01 otherwise', () => {
    shows('traceparent of delivery');
    const spans = Array.from({ length: 20 }, () => headersOf()['traceparent']?.split('-')[2]);
    expect(new Set(spans).size).toBe(20);
    expect(headersOf()['traceparent']).toMatch(/-00$/);
    expect(headersOf({ event: { ...EVENT, traceFlags: undefined } })['traceparent']).toMatch(/-01$/);
  });

  test('carry the same trace in every attempt of an event that has none', () => {
    const event = { ...EVENT, traceId: undefined };
    const [one, two] = [headersOf({ event }), headersOf({ event })];
    expect(one['x-cycles-trace-id']).toMatch(/^[0-9a-f]{32}$/);
    expect(two['x-cycles-trace-id']).toBe(one['x-cycles-trace-id']);
    expect(one['traceparent']).toContain(`00-${one['x-cycles-trace-id']}-`);
  });

  test('name no request if none is known', () => {
    shows('signed delivery');
    expect(headersOf({ event: { ...EVENT, requestId: undefined } })).not.toHaveProperty('x-request-id');
  });
});

describe('the official verifier of Standard Webhooks', () => {
  test('accepts a delivery, and refuses one with other bytes, another id, or another secret', () => {
    const secret = standardSecret();
    const headers = headersOf({ secrets: [secret] });
    const verifier = new Webhook(secret);
    expect(verifier.verify(BODY, headers)).toEqual(JSON.parse(BODY));
    expect(verifier.verify(Buffer.from(BODY), headers)).toEqual(JSON.parse(BODY));
    expect(() => verifier.verify(`${BODY} `, headers)).toThrow('No matching signature');
    expect(() => verifier.verify(BODY, { ...headers, 'webhook-id': 'evt_other' })).toThrow(
      'No matching signature',
    );
    expect(() => new Webhook(standardSecret()).verify(BODY, headers)).toThrow('No matching signature');
  });

  test('accepts both secrets during a rotation; X-Cycles-Signature is made with the new one', () => {
    const secrets: [string, string] = [standardSecret(), standardSecret()];
    const headers = headersOf({ secrets });
    expect(headers['webhook-signature']?.split(' ')).toHaveLength(2);
    for (const secret of secrets) {
      expect(new Webhook(secret).verify(BODY, headers)).toEqual(JSON.parse(BODY));
    }
    expect(headers['x-cycles-signature']).toBe(headersOf({ secrets: [secrets[0]] })['x-cycles-signature']);
  });

  test.each(['a plain secret', 'whsec_', 'whsec_not base64', 'whsec_abc', 'geheimnis-ü'])(
    'uses "%s" as raw bytes',
    (secret) => {
      expect(
        new Webhook(Buffer.from(secret, 'utf8'), { format: 'raw' }).verify(
          BODY,
          headersOf({ secrets: [secret] }),
        ),
      ).toEqual(JSON.parse(BODY));
    },
  );

  test.each([1, 2, 3, 24, 32, 64])('accepts whsec_ secrets of %i bytes', (bytes) => {
    const secret = `whsec_${randomBytes(bytes).toString('base64')}`;
    expect(new Webhook(secret).verify(BODY, headersOf({ secrets: [secret] }))).toEqual(JSON.parse(BODY));
  });
});

describe("a subscription's own headers", () => {
  test('are sent, but replace none that Holdfast sets', () => {
    shows('custom headers');
    const ours = Object.keys(headersOf());
    const hostile = Object.fromEntries(
      [...ours, 'Host', 'CONTENT-LENGTH', 'Transfer-Encoding', 'Webhook-Anything', 'X-Cycles-New'].map(
        (name) => [name.toUpperCase(), 'mine'],
      ),
    );
    const headers = headersOf({ headers: { Authorization: 'Bearer tok', 'X-Team': 'billing', ...hostile } });
    expect(headers).toMatchObject({
      authorization: 'Bearer tok',
      'x-team': 'billing',
      'user-agent': `holdfast/${HOLDFAST_VERSION}`,
    });
    expect(Object.keys(headers).sort()).toEqual([...ours, 'authorization', 'x-team'].sort());
    expect(Object.values(headers)).not.toContain('mine');
    expect(ours.every(isReservedHeader)).toBe(true);
    expect(isReservedHeader('Authorization')).toBe(false);
  });

  test('do not set a request id if none is known', () => {
    expect(
      headersOf({ headers: { 'X-Request-Id': 'mine' }, event: { ...EVENT, requestId: undefined } }),
    ).not.toHaveProperty('x-request-id');
  });
});

test('a delivery names the version from package.json', () => {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  expect(HOLDFAST_VERSION).toBe(version);
});
