import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { ERROR_CATALOGUE } from '../../src/http/errors/error-answer.js';
import { GOVERNANCE_ERROR_CODES, RUNTIME_ERROR_CODES } from '../../src/ledger/refusal.js';

const documented = [
  ...readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8').matchAll(
    /^\| `([A-Z_]+)` \| (\d{3}) \| ([^|]+) \|/gm,
  ),
];

describe('the error catalogue', () => {
  test('has an entry for each code and nothing else', () => {
    expect(Object.keys(ERROR_CATALOGUE).sort()).toEqual(
      [...RUNTIME_ERROR_CODES, ...GOVERNANCE_ERROR_CODES].sort(),
    );
  });

  test('is what docs/errors.md says', () => {
    expect(documented.map(([, code, status, message]) => [code, Number(status), message])).toEqual(
      Object.entries(ERROR_CATALOGUE).map(([code, { status, message }]) => [code, status, message]),
    );
  });
});
