import type { Fields } from '../../governance/listing/index.js';
import { webhookRevisionKey, tagOfWebhookId, type RedisService } from '../../redis/index.js';
import { ifUnbroken, isUnbound, type SealPlace, type SecretBox } from '../secrets/index.js';

/** The sealed fields of lua/lib/webhook.lua, and what each holds. */
const SEALED_FIELDS: readonly [field: string, kind: SealPlace['kind']][] = [
  ['se', 'signing_secret'],
  ['sp', 'signing_secret'],
  ['hd', 'headers'],
];

/**
 * Gives what 0.5 sealed for a subscription the form that binds it to that subscription. What cannot be opened stays as it is.
 * @returns whether the record holds other texts now, or somebody else changed it meanwhile: it has to be read again. @throws StoreUnavailable
 */
export async function resealed(
  redis: RedisService,
  box: SecretBox,
  key: string,
  subscriptionId: string,
  fields: Fields,
): Promise<boolean> {
  const changes = SEALED_FIELDS.flatMap(([field, kind]) => {
    const known = fields.get(field) ?? '';
    const text = isUnbound(known) ? ifUnbroken(() => box.reseal(known, { subscriptionId, kind })) : undefined;
    return text === undefined ? [] : [field, known, text];
  });
  if (changes.length === 0) {
    return false;
  }
  const tag = tagOfWebhookId(subscriptionId, redis.partitions) as string;
  const [word] = await redis.scripts.run('reseal_webhook', [key, webhookRevisionKey(tag)], changes);
  if (word === 'RESEALED') {
    box.countResealed(changes.length / 3);
  }
  return true;
}
