import { createHmac } from 'node:crypto';

const PREFIX = 'whsec_';
/** Standard Webhooks secrets are padded base64 behind their prefix. */
const BASE64 =
  /^(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$|^(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)$/;

/**
 * The key bytes of a secret as Standard Webhooks sees it: what stands in base64 behind `whsec_`. A secret of any other form, which
 * that specification does not know, is taken by its UTF-8 bytes; verifiers call that a raw secret.
 */
function standardKey(secret: string): Buffer {
  const encoded = secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : '';
  return BASE64.test(encoded) ? Buffer.from(encoded, 'base64') : Buffer.from(secret, 'utf8');
}

/** X-Cycles-Signature of cycles-protocol-v0: over the exact bytes of the body, with the whole secret's UTF-8 bytes as the key. */
export function protocolSignature(secret: string, body: string | Buffer): string {
  return `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
}

/** The `webhook-signature` of Standard Webhooks: one signature for each secret, so that a verifier may know any of them. */
export function standardSignature(
  secrets: readonly string[],
  id: string,
  timestampS: number,
  body: string | Buffer,
): string {
  return secrets
    .map(
      (secret) =>
        `v1,${createHmac('sha256', standardKey(secret)).update(`${id}.${timestampS}.`).update(body).digest('base64')}`,
    )
    .join(' ');
}
