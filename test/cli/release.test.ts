import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { disagreements } from '../../scripts/release.mjs';
import { HOLDFAST_VERSION } from '../../src/config/config.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CHART = 'deploy/helm/holdfast/Chart.yaml';
const VERSIONED = [
  'package.json',
  'package-lock.json',
  'CHANGELOG.md',
  CHART,
  'integrations/ai-sdk/package.json',
  'integrations/litellm/pyproject.toml',
];

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-release-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const run = (...args: string[]) =>
  spawnSync(process.execPath, [join(ROOT, 'scripts/release.mjs'), ...args], { encoding: 'utf8' });

describe('the versions', () => {
  test('of package, lock file, changelog, chart and integrations agree', () => {
    expect(disagreements(ROOT)).toMatchObject({ version: HOLDFAST_VERSION, problems: [] });
  });

  test.each(VERSIONED.slice(1))('do not agree if %s has another', (file) => {
    for (const name of VERSIONED) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      cpSync(join(ROOT, name), join(folder, name));
    }
    const text = readFileSync(join(folder, file), 'utf8');
    writeFileSync(join(folder, file), text.replace(HOLDFAST_VERSION, '99.0.0'));
    expect(disagreements(folder).problems).toEqual([expect.stringContaining(file)]);
  });

  test('make no release while the changelog calls it not released', () => {
    const released = disagreements(ROOT).isReleased;
    // Without a rehearsal, the speed is measured.
    const { status, stderr } = run(join(folder, 'out'), ...(released ? ['--rehearse'] : []));
    expect([status, stderr]).toEqual(released ? [0, ''] : [1, expect.stringContaining('not released')]);
  });
});

test('a release has the image, the chart and what ships, with their checksums', () => {
  const out = join(folder, 'out');
  const done = run(out, '--rehearse');
  expect([done.status, done.stderr]).toEqual([0, '']);
  const name = `holdfast-${HOLDFAST_VERSION}`;
  expect(readdirSync(out).sort()).toEqual([
    'SHA256SUMS',
    `${name}-image.tar.gz`,
    `${name}.cdx.json`,
    `${name}.tgz`,
  ]);
  const sums = readFileSync(join(out, 'SHA256SUMS'), 'utf8').trim().split('\n');
  expect(sums).toHaveLength(3);
  for (const line of sums) {
    const [hash, file] = line.split('  ') as [string, string];
    expect(
      createHash('sha256')
        .update(readFileSync(join(out, file)))
        .digest('hex'),
    ).toBe(hash);
  }
  const filesIn = (file: string): string[] =>
    spawnSync('tar', ['-tzf', join(out, file)], { encoding: 'utf8' })
      .stdout.trim()
      .split('\n');
  const image = filesIn(`${name}-image.tar.gz`);
  expect(image).toEqual(
    expect.arrayContaining([
      'Dockerfile',
      '.dockerignore',
      'package-lock.json',
      'src/main.ts',
      'lua/ledger/reserve.lua',
    ]),
  );
  expect(image.filter((file) => /^(test|docs|dist|node_modules)\/|\.env$/.test(file))).toEqual([]);
  const chart = filesIn(`${name}.tgz`);
  expect(chart).toEqual(expect.arrayContaining(['holdfast/Chart.yaml', 'holdfast/files/holdfast.rules.yml']));
  // The rules are a link in the repository, and a file in the package.
  const rules = spawnSync('tar', ['-xzOf', join(out, `${name}.tgz`), 'holdfast/files/holdfast.rules.yml']);
  expect(rules.stdout).toEqual(readFileSync(join(ROOT, 'deploy/prometheus/holdfast.rules.yml')));
  const bill = JSON.parse(readFileSync(join(out, `${name}.cdx.json`), 'utf8')) as {
    bomFormat: string;
    components: { name: string }[];
  };
  expect(bill.bomFormat).toBe('CycloneDX');
  const names = bill.components.map((component) => component.name);
  expect(names).toEqual(expect.arrayContaining(['ioredis', 'fastify']));
  expect(names).not.toContain('jest');
  expect(run(out, '--rehearse')).toMatchObject({
    status: 1,
    stderr: expect.stringContaining('is not empty'),
  });
});
