import { spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

test.each([
  ['scripts/lua/generate.mjs', 'src/redis/script-types.ts'],
  ['scripts/lua/generate.mjs', 'src/redis/keys.ts'],
  ['console/generate.mjs', 'console/src/api/openapi.ts'],
])(
  '%s leaves %s alone if it is what it should be, because a newer file would have everything built again',
  (generator, output) => {
    const generate = (): number | null => spawnSync(process.execPath, [generator], { cwd: ROOT }).status;
    expect(generate()).toBe(0);
    const { mtimeMs } = statSync(join(ROOT, output));
    expect(generate()).toBe(0);
    expect(statSync(join(ROOT, output)).mtimeMs).toBe(mtimeMs);
  },
  60_000,
);
