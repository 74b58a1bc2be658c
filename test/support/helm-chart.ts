import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseAllDocuments, stringify } from 'yaml';
import { chartTool } from '../../scripts/test-tools.mjs';

/** A Kubernetes manifest. */
/* eslint-disable-next-line @typescript-eslint/no-explicit-any -- its shape is what the tests are about */
export type Manifest = any;

export const hasHelm = chartTool('helm') !== undefined;
export const hasKubeScore = chartTool('kube-score') !== undefined;

interface Done {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs Helm with these values in a file. */
export function helm(command: readonly string[], values: object, more: readonly string[] = []): Done {
  const work = mkdtempSync(join(tmpdir(), 'helm-'));
  try {
    const file = join(work, 'values.yaml');
    writeFileSync(file, stringify(values));
    return spawnSync(chartTool('helm') ?? 'helm', [...command, '--values', file, ...more], {
      encoding: 'utf8',
    });
  } finally {
    rmSync(work, { recursive: true });
  }
}

/** What `helm template` writes for release `ledger`. Throws what it says if it fails. */
export function template(folder: string, values: object): string {
  const cluster = ['--namespace', 'payments', '--kube-version', '1.30.0'];
  const { status, stdout, stderr } = helm(['template', 'ledger', folder], values, cluster);
  if (status !== 0) {
    throw new Error(stderr);
  }
  return stdout;
}

/** The manifests by kind and name, as in `Service ledger`. */
export function render(folder: string, values: object): Record<string, Manifest> {
  const manifests = parseAllDocuments(template(folder, values)).map((document) => {
    if (document.errors.length > 0) {
      throw document.errors[0] as Error;
    }
    return document.toJS();
  });
  return Object.fromEntries(
    manifests.filter(Boolean).map((manifest) => [`${manifest.kind} ${manifest.metadata.name}`, manifest]),
  );
}

/** What kube-score finds critical in the manifests, as `kind name: finding`. */
export function criticalFindings(manifests: string, ignored: readonly string[]): string[] {
  const options = [...ignored.flatMap((test) => ['--ignore-test', test]), '--ignore-container-cpu-limit'];
  const { stdout, stderr, error } = spawnSync(
    chartTool('kube-score') ?? 'kube-score',
    ['score', '--output-format', 'ci', ...options, '-'],
    { encoding: 'utf8', input: manifests },
  );
  if (error !== undefined || stdout === '') {
    throw error ?? new Error(stderr);
  }
  return stdout.split('\n').filter((line) => line.startsWith('[CRITICAL]'));
}
