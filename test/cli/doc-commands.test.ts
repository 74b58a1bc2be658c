import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { generateEvidenceKeys } from '../../src/config/evidence-keys.js';
import { docBlocks } from '../support/doc-blocks.js';
import { ADMIN_API_KEY, Holdfast } from '../support/holdfast.js';
import { startStore, type Store } from '../support/store.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FILES = ['README.md', ...readdirSync(join(ROOT, 'docs')).map((name) => `docs/${name}`)].filter((file) =>
  file.endsWith('.md'),
);

/** What becomes of each block of commands: `run`, the text that its output must have, or why it does not run here. */
type Plan = 'run' | { readonly says: string } | { readonly skipped: string };

const UP = { skipped: 'test/cli/up.test.ts runs this command' };
const PERIODS = { skipped: 'test/cli/up.test.ts runs these lines in their order' };
const HOOKS = { skipped: 'test/cli/up.test.ts runs these lines with the endpoint that the page shows' };
const REHEARSAL = { skipped: 'test/fault/rehearsal.test.ts runs these lines' };
const PLACEHOLDER = {
  skipped: 'it names a host or an id of the reader; test/cli/verify-evidence.test.ts runs the command',
};
const CHARGES = { skipped: 'test/http/charge-on-expiry.test.ts sends these requests' };
const KEYS = { skipped: 'test/config/evidence-keys.test.ts makes and rotates keys' };

/** By file, in the order of its blocks. Pages without commands are missing. */
const PLANS: Readonly<Record<string, readonly Plan[]>> = {
  'README.md': [UP, { says: '"remaining":{"unit":"TOKENS","amount":9360}' }],
  'docs/batches.md': [
    { says: '"status":"COMMITTED"' },
    { says: '10000' },
    { says: '"spent":{"unit":"TOKENS","amount":800000}' },
    { says: '"reservation_set_id":"set_' },
    { says: '"charged":{"unit":"USD_MICROCENTS","amount":1350000}' },
  ],
  'docs/administration.md': [{ says: '"dry_run":true' }, CHARGES, CHARGES, { says: '"limit":250000' }],
  'docs/backup.md': [
    REHEARSAL,
    REHEARSAL,
    REHEARSAL,
    { skipped: 'it needs a dump; test/fault/backup.test.ts makes one the base of a log' },
  ],
  'docs/budget-templates.md': [{ says: '"template_id":"per-agent"' }],
  'docs/budgets.md': [PERIODS, PERIODS, PERIODS, { says: '"time_zone":"Europe/Berlin"' }],
  'docs/credits.md': [
    {
      says: '"name":"Prepaid","status":"ACTIVE","amount":{"unit":"TOKENS","amount":5000},"remaining":{"unit":"TOKENS","amount":4000},"consumed":{"unit":"TOKENS","amount":1000}',
    },
  ],
  'docs/development.md': [{ skipped: 'it installs another version of Node.js' }],
  'docs/errors.md': [{ says: '"decision":"ALLOW"' }, { says: '"decision":"ALLOW"' }],
  'docs/evidence.md': [
    { skipped: 'test/evidence starts with these settings' },
    KEYS,
    { says: '"cycles_evidence"' },
    PLACEHOLDER,
    PLACEHOLDER,
    { says: '"evidence_references":false' },
    KEYS,
  ],
  'docs/operators.md': [
    { says: '"key_secret":"' },
    { says: '"tenants":["acme","team-*"]' },
    { says: '"key_secret":"' },
  ],
  'docs/refunds.md': [
    {
      says: '"refunded_total":{"unit":"TOKENS","amount":400},"returned":[{"scope":"tenant:acme-refunds","amount":400}],"balances":[{"scope":"tenant:acme-refunds","scope_path":"tenant:acme-refunds","remaining":{"unit":"TOKENS","amount":4400}',
    },
  ],
  'docs/test-clocks.md': [
    'run',
    { says: '"decision":"ALLOW"' },
    { says: '"status":"READY"' },
    { says: 'reservation.expired' },
  ],
  'docs/usage.md': [
    { skipped: 'it needs an archive; test/usage/usage.test.ts sends such requests' },
    { skipped: 'likewise; test/cli/archive-query.test.ts runs such queries' },
  ],
  'docs/webhooks.md': [HOOKS, HOOKS, HOOKS, HOOKS],
};

const blocks = FILES.map((file) => ({ file, found: docBlocks(file) })).filter(
  ({ found }) => found.length > 0,
);

function isSkipped(plan: Plan | undefined): plan is { readonly skipped: string } {
  return typeof plan === 'object' && 'skipped' in plan;
}

describe('the blocks of commands in README and docs', () => {
  test('all run here, or have a reason', () => {
    const counted = (of: readonly (readonly [string, number])[]): object => Object.fromEntries(of);
    expect(counted(blocks.map(({ file, found }) => [file, found.length]))).toEqual(
      counted(Object.entries(PLANS).map(([file, plans]) => [file, plans.length])),
    );
  });

  // An interactive zsh takes # for a word: a quote in a comment opens a text, and a comment behind a command is passed to it.
  test('have only comments that an interactive zsh survives', () => {
    const wrong = blocks
      .flatMap(({ found }) => found)
      .flatMap(({ file, line, code }) =>
        code.split('\n').map((text, index) => ({ at: `${file}:${line + index}`, text })),
      )
      .filter(({ text }) => (text.startsWith('#') ? !/^# [\w ,.:-]+$/.test(text) : /\s#/.test(text)))
      .map(({ at, text }) => `${at} ${text}`);
    expect(wrong).toEqual([]);
  });
});

/** An interactive zsh reads its input as what is pasted. */
const SHELLS: readonly (readonly [string, ...string[]])[] = [
  ['sh', '-s'],
  ['zsh', '-f', '-i', '-s'],
];

describe.each(SHELLS)('pasted into %s, after the first session', (...shell: readonly string[]) => {
  let store: Store;
  let holdfast: Holdfast;
  let folder: string;
  beforeAll(async () => {
    store = await startStore();
    holdfast = await Holdfast.start({
      REDIS_URL: store.url,
      HOLDFAST_TEST_CLOCK: 'true',
      EVIDENCE_SERVER_ID: 'https://cycles.example.com/v1',
      EVIDENCE_KEYS: generateEvidenceKeys(1_700_000_000_000),
    });
    folder = mkdtempSync(join(tmpdir(), 'holdfast-doc-commands-'));
  });
  afterAll(async () => {
    await holdfast.stop();
    await store.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /** All blocks in one session, each behind a line that names it. */
  function session(): string {
    const parts = Object.entries(PLANS).flatMap(([file, plans]) =>
      docBlocks(file).flatMap(({ code }, index) =>
        isSkipped(plans[index]) ? [] : [`echo; echo "=== ${file} ${index}"`, code],
      ),
    );
    return `${parts.join('\n')}\n`
      .replaceAll('$(cat .data/admin-api-key)', ADMIN_API_KEY)
      .replaceAll('http://127.0.0.1:7878', holdfast.url);
  }

  /** What each block prints, by its name. The service is in this process, so the shell must not block it. */
  async function outputs(): Promise<Map<string, string>> {
    const [command = '', ...args] = shell;
    const child = spawn(command, args, {
      cwd: folder,
      env: { PATH: process.env['PATH'] ?? '', HOME: folder },
    });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    // Prompts, and what commands complain about.
    child.stderr.resume();
    child.stdin.end(session());
    await once(child, 'close');
    const parts = output.split(/^=== /m).map((part) => part.split('\n'));
    return new Map(parts.map(([name = '', ...lines]) => [name.trim(), lines.join('\n')]));
  }

  const isMissing = spawnSync(shell[0] as string, ['-c', ':']).status !== 0;
  const title = isMissing ? ` (skipped: ${shell[0]} is not installed)` : '';
  (isMissing ? test.skip : test)(
    `every command works${title}`,
    async () => {
      const found = await outputs();
      for (const [file, plans] of Object.entries(PLANS)) {
        for (const [index, plan] of plans.entries()) {
          if (!isSkipped(plan)) {
            const at = [file, index, found.get(`${file} ${index}`)];
            const says = expect.stringContaining(plan === 'run' ? '' : plan.says);
            expect(at).toEqual([file, index, says]);
            expect(at).toEqual([file, index, expect.not.stringContaining('"error":')]);
          }
        }
      }
      // One of the pages makes and settles ten thousand holds.
    },
    120_000,
  );
});
