import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from '@jest/globals';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CACHE = join(ROOT, 'node_modules', '.cache');
mkdirSync(CACHE, { recursive: true });
/** Below node_modules, so that packages are found. */
const folder = mkdtempSync(join(CACHE, 'doc-types-'));
afterAll(() => rmSync(folder, { recursive: true }));

const PAGES = ['README.md', 'docs/batches.md', 'integrations/ai-sdk/README.md'];

/** Packages of others that a reader installs and this repository does not, as far as the pages use them. */
const PACKAGES = `
declare module 'runcycles' {
  export class CyclesConfig {
    constructor(options: { baseUrl: string; apiKey: string; tenant?: string });
  }
  export class CyclesClient {
    constructor(config: CyclesConfig);
  }
  interface Guard<Args extends unknown[], Result> {
    client?: CyclesClient;
    estimate: number | ((...args: Args) => number);
    actual?: number | ((result: Result) => number);
    unit?: string;
    actionKind?: string;
    actionName?: string;
  }
  export function withCycles<Args extends unknown[], Result>(
    guard: Guard<Args, Result>,
    call: (...args: Args) => Promise<Result>,
  ): (...args: Args) => Promise<Result>;
}
declare module '@ai-sdk/openai' {
  export const openai: (model: string) => import('@ai-sdk/provider').LanguageModelV4;
}
`;

const codeOf = (page: string): string[] =>
  [...readFileSync(join(ROOT, page), 'utf8').matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code = '']) => code);

test('the TypeScript of README and pages is accepted by a strict compiler', () => {
  const files = PAGES.flatMap((page) => {
    const found = codeOf(page);
    expect(found).toHaveLength(1);
    return found.map((code): [string, string] => [
      `${page.replaceAll(/\W/g, '-')}.mts`,
      `${code}\nexport {};\n`,
    ]);
  });
  files.forEach(([name, code]) => writeFileSync(join(folder, name), code));
  writeFileSync(join(folder, 'packages.d.ts'), PACKAGES);
  const compilerOptions = {
    ...{ target: 'es2023', lib: ['es2023'], module: 'nodenext', types: ['node'] },
    ...{ strict: true, noEmit: true, skipLibCheck: true, allowImportingTsExtensions: true },
    paths: { 'holdfast-ai-sdk': [join(ROOT, 'integrations/ai-sdk/src/index.ts')] },
  };
  const include = ['*.mts', 'packages.d.ts'];
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include }));
  const { status, stdout } = spawnSync(
    process.execPath,
    [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', folder, '--pretty', 'false'],
    { encoding: 'utf8' },
  );
  expect([status, stdout]).toEqual([0, '']);
}, 60_000);
