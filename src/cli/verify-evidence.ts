import 'reflect-metadata';
import { readFile } from 'node:fs/promises';
import { type Disposition, type KeySet, verifyEnvelope } from '../evidence/index.js';
import { reasonOf } from './verify.js';

const FETCH_TIMEOUT_MS = 10_000;
const MAX_BYTES = 16 * 1024 * 1024;
const EVIDENCE_ID_IN_URL = /\/([0-9a-f]{64})$/;

export interface VerifyEvidenceOptions {
  /** Of the envelope. */
  readonly source: string;
  /** URL or file of the JWK Set. By default, the server's own one if the envelope came from a URL, else none. */
  readonly keys?: string | undefined;
  /** The only signer to trust: a public key in hex or a DID. */
  readonly signer?: string | undefined;
  readonly print: (text: string) => void;
}

const NOT_VERIFIED = 2;
/** The envelope is whole, but nobody has said whose key signed it. */
const SIGNER_UNKNOWN = 3;

type ExitCode = 0 | 1 | 2 | 3;

/** The exit codes of `npm run verify-evidence`. */
const EXIT_CODES: Readonly<Record<Disposition, ExitCode>> = {
  authentic: 0,
  binding_only: SIGNER_UNKNOWN,
  signature_invalid: 1,
  signer_authority_failed: 1,
  malformed: 1,
  signer_resolution_failed: NOT_VERIFIED,
};

const isUrl = (source: string): boolean => /^https?:\/\//.test(source);

async function read(source: string): Promise<string> {
  if (!isUrl(source)) {
    return readFile(source, 'utf8');
  }
  const response = await fetch(source, { signal: AbortSignal.timeout(FETCH_TIMEOUT_MS) });
  if (response.status !== 200) {
    throw new Error(`GET ${source} answered ${response.status}`);
  }
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of response.body ?? []) {
    size += (part as Uint8Array).length;
    if (size > MAX_BYTES) {
      throw new Error(`GET ${source} answered more than ${MAX_BYTES} bytes`);
    }
    parts.push(Buffer.from(part as Uint8Array));
  }
  return Buffer.concat(parts).toString('utf8');
}

async function readKeySet(source: string | undefined): Promise<KeySet> {
  if (source === undefined) {
    return { kind: 'none' };
  }
  return read(source).then(
    (text) => ({ kind: 'found', text }) as const,
    () => ({ kind: 'unavailable' }) as const,
  );
}

/** Where a server publishes its keys: appended to its identity as it is, with a doubled slash collapsed. */
function keySetUrl(serverId: string): string {
  return `${serverId.replace(/\/$/, '')}/.well-known/cycles-jwks.json`;
}

/** In words, for times that a date can express. */
function utcOf(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? '' : ` (${date.toISOString()})`;
}

/**
 * Verifies an envelope without its server, and prints what was found, or in a line why it cannot be read.
 * @returns the exit code
 */
export async function verifyEvidence({
  source,
  keys,
  signer,
  print,
}: VerifyEvidenceOptions): Promise<ExitCode> {
  let text: string;
  try {
    text = await read(source);
  } catch (error) {
    print(`the envelope cannot be read: ${reasonOf(error)}`);
    return NOT_VERIFIED;
  }
  const { envelope } = verifyEnvelope(text, { kind: 'none' });
  const keySource =
    keys ?? (isUrl(source) && envelope !== undefined ? keySetUrl(envelope.server_id) : undefined);
  const { disposition, reason, pinned } = verifyEnvelope(text, await readKeySet(keySource), signer);
  print(`${disposition}${reason === undefined ? '' : `: ${reason}`}`);
  if (envelope === undefined) {
    return EXIT_CODES[disposition];
  }
  print(`  ${envelope.artifact_type} ${envelope.evidence_id}`);
  print(`  issued at ${envelope.issued_at_ms} ms${utcOf(envelope.issued_at_ms)} by ${envelope.server_id}`);
  print(
    `  signer ${envelope.signer_did}${pinned === undefined ? '' : pinned ? ', as expected' : ', NOT THE EXPECTED ONE'}`,
  );
  const named = isUrl(source) ? EVIDENCE_ID_IN_URL.exec(source)?.[1] : undefined;
  if (named !== undefined && named !== envelope.evidence_id) {
    print('  THE URL NAMES ANOTHER ENVELOPE');
    return 1;
  }
  if (pinned === false) {
    return 1;
  }
  return pinned === true && disposition === 'binding_only' ? 0 : EXIT_CODES[disposition];
}
