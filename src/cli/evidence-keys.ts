import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { FIRST_KEY_LEAD_MS, generateEvidenceKeys, rotateEvidenceKeys } from '../config/index.js';

/** Long enough to restart every instance with the new set before it takes effect. */
const DEFAULT_NOTICE_MS = 3_600_000;

export interface EvidenceKeysOptions {
  /** The file of the key set. It has private keys, so only its owner may read it. */
  readonly file: string;
  /** Whether to add a key to the set in the file, instead of making the file with a first key. */
  readonly rotate: boolean;
  /** When the added key takes over, in ISO 8601; by default in an hour. */
  readonly at?: string | undefined;
}

/**
 * Makes or rotates a set of keys that sign evidence.
 * @returns what was done, in a line
 * @throws Error if the file is there already, or its set cannot be used or rotated at that time
 */
export function evidenceKeys({ file, rotate, at }: EvidenceKeysOptions): string {
  // eslint-disable-next-line no-restricted-syntax -- this command knows no Redis
  const nowMs = new Date().getTime();
  if (!rotate) {
    if (existsSync(file)) {
      throw new Error(`${file} exists already; add --rotate to add a key to its set`);
    }
    writeFileSync(file, `${generateEvidenceKeys(nowMs - FIRST_KEY_LEAD_MS)}\n`, { mode: 0o600, flag: 'wx' });
    return `${file} has a first key`;
  }
  const atMs = at === undefined ? nowMs + DEFAULT_NOTICE_MS : Date.parse(at);
  if (Number.isNaN(atMs)) {
    throw new Error(`${JSON.stringify(at)} is no time such as 2027-01-31T12:00:00Z`);
  }
  if (atMs <= nowMs) {
    throw new Error('the new key must take over in the future, once every instance has it');
  }
  const rotated = rotateEvidenceKeys(readFileSync(file, 'utf8'), atMs);
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, `${rotated}\n`, { mode: 0o600, flag: 'wx' });
  renameSync(draft, file);
  return `${file} has a new key, which takes over at ${new Date(atMs).toISOString()}: give it to every instance before that`;
}
