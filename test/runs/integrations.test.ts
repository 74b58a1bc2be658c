import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from '@jest/globals';

const COMMAND = fileURLToPath(new URL('../../scripts/test-integrations.mjs', import.meta.url));
/** Nothing is on this PATH, so no Python either. */
const empty = mkdtempSync(join(tmpdir(), 'hf-no-python-'));
afterAll(() => rmSync(empty, { recursive: true }));

function runWithoutPython(env: Record<string, string>): { status: number | null; lines: string[] } {
  const { status, stdout } = spawnSync(process.execPath, [COMMAND], {
    encoding: 'utf8',
    env: { PATH: empty, ...env },
  });
  return { status, lines: stdout.trim().split('\n') };
}

test('without Python, the tests of the integrations are skipped loudly', () => {
  expect(runWithoutPython({})).toEqual({
    status: 0,
    lines: [
      'integrations/litellm: SKIPPED: no python3 of 3.11 or newer with venv is on PATH',
      '0 passed, 0 failed',
    ],
  });
});

test('where they are required, as in CI, that is a failure', () => {
  expect(runWithoutPython({ INTEGRATIONS: 'required' })).toEqual({
    status: 1,
    lines: [
      'integrations/litellm: FAILED: no python3 of 3.11 or newer with venv is on PATH',
      '0 passed, 1 failed',
    ],
  });
});
