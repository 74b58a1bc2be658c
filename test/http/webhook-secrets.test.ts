import { describe, expect, test } from '@jest/globals';
import { expectStatus, Holdfast, type Json } from '../support/holdfast.js';
import { storedWebhookKey, Subscriber } from '../support/subscriber.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const subscriber = (): Promise<Subscriber> => Subscriber.make(on.holdfast, on.stored);
const record = (id: string): Promise<Record<string, string>> => on.stored.redis.hgetall(storedWebhookKey(id));

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
});
