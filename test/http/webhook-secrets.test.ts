import { createCipheriv, randomBytes } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { webhookRevisionKey } from '../../src/redis/keyspace.js';
import { SecretBox } from '../../src/webhooks/signing/secret-box.js';
import {
  ADMIN_API_KEY,
  expectStatus,
  Holdfast,
  WEBHOOK_SECRET_ENCRYPTION_KEY,
  type Json,
} from '../support/holdfast.js';
import { PUBLIC_URL, storedWebhookKey, Subscriber } from '../support/subscriber.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const subscriber = (): Promise<Subscriber> => Subscriber.make(on.holdfast, on.stored);
const record = (id: string): Promise<Record<string, string>> => on.stored.redis.hgetall(storedWebhookKey(id));
const counted = (result: string): Promise<number> =>
  on.holdfast.metric('holdfast_webhook_unbound_secrets_total', { result });

/** Encrypted as 0.5 did, not bound to a place. */
function sealedByOld(text: string): string {
  const iv = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', Buffer.from(WEBHOOK_SECRET_ENCRYPTION_KEY, 'hex'), iv);
  return `enc:${Buffer.concat([iv, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]).toString('base64')}`;
}

/**
 * Whether the subscription's secrets and headers can be decrypted. A webhook test that cannot decrypt them
 * says so and sends nothing.
 */
async function opens(holdfast: Holdfast, id: string): Promise<boolean> {
  const found: Json = expectStatus(await holdfast.admin('POST', `/v1/admin/webhooks/${id}/test`), 200);
  return !String(found.error_message).startsWith('signing_key_unavailable');
}

/**
 * Blocks all targets while `act` runs, so that webhook tests end after they have decrypted the secret and
 * send nothing.
 */
async function forbidden<T>(act: () => Promise<T>): Promise<T> {
  expectStatus(
    await on.holdfast.admin('PUT', '/v1/admin/config/webhook-security', {
      blocked_cidr_ranges: ['0.0.0.0/0'],
    }),
    200,
  );
  try {
    return await act();
  } finally {
    expectStatus(await on.holdfast.admin('PUT', '/v1/admin/config/webhook-security', {}), 200);
  }
}

describe('what is encrypted for a subscription', () => {
  test('cannot be decrypted for another one, or as another field', async () => {
    const owner = await subscriber();
    const headers = { Authorization: 'Bearer abc' };
    const [one, two] = [await owner.made({ headers }), await owner.made({ headers })].map(
      ({ subscription_id: id }) => id as string,
    ) as [string, string];
    const [mine, others] = [await record(one), await record(two)];
    await forbidden(async () => {
      expect([await opens(on.holdfast, one), await opens(on.holdfast, two)]).toEqual([true, true]);
      for (const swapped of [
        { se: others['se'] },
        { hd: others['hd'] },
        { se: mine['hd'] },
        { hd: mine['se'] },
      ] as Record<string, string>[]) {
        await on.stored.redis.hset(storedWebhookKey(one), swapped);
        expect([Object.keys(swapped), await opens(on.holdfast, one)]).toEqual([Object.keys(swapped), false]);
        await on.stored.redis.hset(storedWebhookKey(one), {
          se: mine['se'] as string,
          hd: mine['hd'] as string,
        });
        expect(await opens(on.holdfast, one)).toBe(true);
      }
    });
  });

  test('by 0.5 can be read, and is bound to its subscription by the next change, whatever that changes', async () => {
    const owner = await subscriber();
    const { subscription_id: id } = await owner.made();
    const until = String(Date.now() + 3_600_000);
    const old = {
      se: sealedByOld('whsec_new'),
      sp: sealedByOld('whsec_old'),
      su: until,
      hd: sealedByOld('{"X-Team":"a"}'),
      hn: 'X-Team',
    };
    await on.stored.redis.hset(storedWebhookKey(id), old);
    await forbidden(async () => expect(await opens(on.holdfast, id)).toBe(true));
    const [events, revision, resealed] = [
      (await owner.events()).length,
      await on.stored.redis.get(webhookRevisionKey(on.stored.tagOf(owner.id))),
      await counted('resealed'),
    ];

    expectStatus(await owner.patch(id, {}), 200);
    const bound = await record(id);
    const box = on.holdfast.app.get(SecretBox);
    expect(
      [bound['se'], bound['sp'], bound['hd']].filter((text) => text?.startsWith('enc2:') !== true),
    ).toEqual([]);
    expect(box.open(bound['se'] as string, { subscriptionId: id, kind: 'signing_secret' })).toBe('whsec_new');
    expect(box.open(bound['sp'] as string, { subscriptionId: id, kind: 'signing_secret' })).toBe('whsec_old');
    expect(bound['su']).toBe(until);
    // A masked header still stands for the value that 0.5 encrypted.
    expect(
      expectStatus(await owner.patch(id, { headers: { 'X-Team': '********', 'X-New': 'b' } }), 200).headers,
    ).toEqual({ 'X-Team': '********', 'X-New': '********' });
    expect(box.open((await record(id))['hd'] as string, { subscriptionId: id, kind: 'headers' })).toBe(
      '{"X-Team":"a","X-New":"b"}',
    );
    expect(await counted('resealed')).toBe(resealed + 3);
    expect((await owner.events()).length).toBe(events + 1);
    expect(await on.stored.redis.get(webhookRevisionKey(on.stored.tagOf(owner.id)))).not.toBe(revision);
  });

  test('by 0.5 cannot be read if the configuration refuses it', async () => {
    const owner = await subscriber();
    const { subscription_id: id } = await owner.made();
    await on.stored.redis.hset(storedWebhookKey(id), { se: sealedByOld('whsec_new') });
    const strict = await Holdfast.start({ REDIS_URL: on.redis.url, WEBHOOK_UNBOUND_SECRETS: 'refuse' });
    try {
      await forbidden(async () => {
        expect([await opens(on.holdfast, id), await opens(strict, id)]).toEqual([true, false]);
      });
      expect(
        await strict.metric('holdfast_webhook_unbound_secrets_total', { result: 'refused' }),
      ).toBeGreaterThan(0);
      expect(await counted('opened')).toBeGreaterThan(0);
    } finally {
      await strict.stop();
    }
  });
});

describe('a response that holds a secret', () => {
  test('must not be cached, and the responses that mask it are as before', async () => {
    const owner = await subscriber();
    const admin = { 'x-admin-api-key': ADMIN_API_KEY };
    const hook = { url: PUBLIC_URL, event_types: ['budget.created'] };
    const secrets = [
      await on.holdfast.call('POST', '/v1/admin/api-keys', {
        body: { tenant_id: owner.id, name: 'k' },
        headers: admin,
      }),
      await on.holdfast.call('POST', `/v1/admin/webhooks?tenant_id=${owner.id}`, {
        body: hook,
        headers: admin,
      }),
      await on.holdfast.call('POST', '/v1/webhooks', { body: hook, key: owner.key }),
    ];
    expect(secrets.map(({ status, headers }) => [status, headers.get('cache-control')])).toEqual(
      Array(3).fill([201, 'no-store']),
    );
    expect((await owner.list()).headers.get('cache-control')).toBeNull();
  });
});
