/**
 * How the length of a body is declared. Only `exact` and `chunked` do it correctly; `none` declares no
 * length, and the others are wrong, malformed or contradictory.
 */
export const FRAMINGS = [
  'exact',
  'chunked',
  'too_long',
  'too_short',
  'none',
  'twice',
  'both',
  'negative',
  'endless',
  'no_number',
  'bad_chunk',
  'unknown_coding',
] as const;
export type Framing = (typeof FRAMINGS)[number];

/** Framings that promise more body than is sent, so the server waits in vain for the rest. */
export const CUT_OFF: ReadonlySet<Framing> = new Set<Framing>(['too_long', 'endless']);

interface Framed {
  readonly head: readonly (readonly [name: string, value: string])[];
  readonly payload: Buffer;
}

const LENGTH = 'Content-Length';
const CODING = 'Transfer-Encoding';

function chunked(body: Buffer): Buffer {
  const chunk =
    body.length === 0
      ? Buffer.alloc(0)
      : Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n')]);
  return Buffer.concat([chunk, Buffer.from('0\r\n\r\n')]);
}

export function framedBody(body: Buffer, framing: Framing): Framed {
  const size = String(body.length);
  switch (framing) {
    case 'exact':
      return { head: [[LENGTH, size]], payload: body };
    case 'chunked':
      return { head: [[CODING, 'chunked']], payload: chunked(body) };
    case 'too_long':
      return { head: [[LENGTH, String(body.length + 7)]], payload: body };
    case 'too_short':
      return { head: [[LENGTH, String(Math.max(0, body.length - 3))]], payload: body };
    case 'none':
      return { head: [], payload: body };
    case 'twice':
      return {
        head: [
          [LENGTH, size],
          [LENGTH, '1'],
        ],
        payload: body,
      };
    case 'both':
      return {
        head: [
          [LENGTH, size],
          [CODING, 'chunked'],
        ],
        payload: chunked(body),
      };
    case 'negative':
      return { head: [[LENGTH, '-1']], payload: body };
    case 'endless':
      return { head: [[LENGTH, '99999999999999999999']], payload: body };
    case 'no_number':
      return { head: [[LENGTH, '1e2']], payload: body };
    case 'bad_chunk':
      return { head: [[CODING, 'chunked']], payload: Buffer.concat([Buffer.from('zz\r\n'), body]) };
    case 'unknown_coding':
      return { head: [[CODING, 'gzip']], payload: body };
  }
}
