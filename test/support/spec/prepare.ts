import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parse } from 'yaml';
import { EXTENSIONS, type Extensions, mergeExtensions } from './extensions.ts';

/** The protocol's documents by plane. If several describe an operation, the first one counts. */
const DOCUMENTS = {
  runtime: 'cycles-protocol-v0.yaml',
  governance: 'cycles-governance-admin-v0.1.25.yaml',
} as const;
/** The schema of evidence envelopes; its examples are in the folder below. */
const EVIDENCE = 'cycles-evidence-v0.2.yaml';
const FIXTURES = 'evidence-fixtures';

/**
 * Reads the protocol's OpenAPI documents once for the whole run and stores them as JSON for the test files,
 * because each would need half a second to parse the YAML. The folder is `CYCLES_SPEC_DIR`, by default
 * `../shared/spec`. Without the default folder the contract checks are skipped, with one message; a folder
 * that the variable names must exist. A run inside a run uses what the outer one stored.
 */
export function prepareSpec(rootDir: string): void {
  if (process.env['TEST_SPEC_FILE'] !== undefined) {
    return;
  }
  const named = process.env['CYCLES_SPEC_DIR'];
  const folder = resolve(rootDir, named ?? '../shared/spec');
  const files = Object.entries(DOCUMENTS).map(([plane, name]) => [plane, join(folder, name)] as const);
  const others = [EVIDENCE, FIXTURES, ...Object.values(EXTENSIONS)];
  const wanted = [...files, ...others.map((name) => [name, join(folder, name)] as const)];
  const missing = wanted.find(([, file]) => !existsSync(file));
  if (missing !== undefined) {
    const reason = `there is no ${missing[1]}; set CYCLES_SPEC_DIR to the folder of the protocol's OpenAPI documents`;
    if (named !== undefined) {
      throw new Error(reason);
    }
    process.env['TEST_SPEC_ABSENT'] = reason;
    process.stderr.write(`responses are not compared with the protocol's OpenAPI documents: ${reason}\n`);
    return;
  }
  const documentsIn = (
    named: readonly (readonly [string, string])[],
  ): Record<string, Record<string, unknown>> =>
    Object.fromEntries(
      named.map(([name, file]) => [
        name,
        withoutProse(parse(readFileSync(file, 'utf8'))) as Record<string, unknown>,
      ]),
    );
  const documents = documentsIn(files) as Record<keyof typeof DOCUMENTS, Record<string, unknown>>;
  const extensions = Object.entries(EXTENSIONS).map(([name, file]) => [name, join(folder, file)] as const);
  mergeExtensions(documents, documentsIn(extensions) as Extensions);
  const copy = join(mkdtempSync(join(tmpdir(), 'holdfast-test-spec-')), 'spec.json');
  writeFileSync(copy, JSON.stringify(documents));
  process.env['TEST_SPEC_FILE'] = copy;
  const fixtures = readdirSync(join(folder, FIXTURES))
    .sort()
    .map((name) => ({ name, text: readFileSync(join(folder, FIXTURES, name), 'utf8').trimEnd() }));
  const schema: unknown = parse(readFileSync(join(folder, EVIDENCE), 'utf8'));
  const actions = parse(readFileSync(join(folder, EXTENSIONS.actions), 'utf8')) as Record<string, unknown>;
  process.env['TEST_REGISTRY_FILE'] = join(dirname(copy), 'registry.json');
  writeFileSync(process.env['TEST_REGISTRY_FILE'], JSON.stringify(actions['x-action-kind-registry']));
  process.env['TEST_EVIDENCE_FILE'] = join(dirname(copy), 'evidence.json');
  writeFileSync(process.env['TEST_EVIDENCE_FILE'], JSON.stringify({ schema, fixtures }));
}

/**
 * Removes descriptions, which make up most of the documents. A property named `description` has a schema as
 * its value, and stays.
 */
function withoutProse(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(withoutProse);
  }
  if (typeof value !== 'object' || value === null) {
    return value;
  }
  const kept = Object.entries(value).filter(
    ([name, entry]) => !(name === 'description' && typeof entry === 'string') && name !== 'example',
  );
  return Object.fromEntries(kept.map(([name, entry]) => [name, withoutProse(entry)]));
}
