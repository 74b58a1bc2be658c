import type { SecretBox } from '../secrets/index.js';

/** What a subscription keeps sealed. */
export interface SealedMaterial {
  readonly subscriptionId: string;
  /** JSON; undefined when the subscription has no headers of its own. */
  readonly headers: string | undefined;
  /** The secret in force, then the one before it while that is valid. */
  readonly secrets: readonly string[];
}

/** What a delivery is signed and sent with. */
export interface SigningMaterial {
  readonly headers: Readonly<Record<string, string>>;
  readonly secrets: readonly [string, ...string[]];
}

/** Reads stored headers; none when nothing is stored. @throws SealBroken */
export function openHeaders(
  box: SecretBox,
  subscriptionId: string,
  sealed: string | undefined,
): Record<string, string> {
  return sealed === undefined || sealed === ''
    ? {}
    : (JSON.parse(box.open(sealed, { subscriptionId, kind: 'headers' })) as Record<string, string>);
}

/** Opens what a delivery needs. @throws SealBroken, also when there is no secret at all: nothing is ever sent unsigned. */
export function openMaterial(
  box: SecretBox,
  { subscriptionId, headers, secrets }: SealedMaterial,
): SigningMaterial {
  const [current, ...former] = secrets;
  const open = (secret: string): string => box.open(secret, { subscriptionId, kind: 'signing_secret' });
  return {
    headers: openHeaders(box, subscriptionId, headers),
    secrets: [open(current ?? ''), ...former.map(open)],
  };
}
