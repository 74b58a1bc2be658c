import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { openApiDocument } from '../../console/document.js';
import { EVENT_PAYLOADS } from '../../src/events/event-payloads.js';
import { ERROR_CATALOGUE } from '../../src/http/errors/error-answer.js';
import { CONTENTS } from '../../src/http/openapi/contents.js';
import { REFUSALS } from '../../src/http/openapi/refusals.js';
import { escapePart, problemsOf, SchemaBook } from '../support/spec/index.js';

type Node = Record<string, unknown>;

interface Response {
  readonly $ref?: string;
  readonly description?: string;
  readonly content?: Record<string, { readonly schema?: Node; readonly example?: unknown }>;
}

interface Operation {
  readonly operationId: string;
  readonly description?: string;
  readonly security?: readonly Node[];
  readonly parameters?: readonly { readonly name?: string; readonly description?: string }[];
  readonly responses: Record<string, Response>;
}

let text: string;
let document: Node & {
  readonly paths: Record<string, Record<string, Operation>>;
  readonly webhooks: Record<string, { readonly post: Operation }>;
  readonly components: { readonly responses: Record<string, Response> };
};

beforeAll(async () => {
  text = await openApiDocument({ HOLDFAST_TEST_CLOCK: 'true' });
  document = JSON.parse(text) as typeof document;
});

function operations(): { path: string; method: string; operation: Operation }[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
  );
}

/** The members of objects that say nothing of what they mean, as paths in the document. */
function undescribed(part: unknown, place = ''): string[] {
  if (typeof part !== 'object' || part === null) {
    return [];
  }
  return Object.entries(part).flatMap(([name, value]: [string, unknown]) => {
    const at = `${place}/${name}`;
    const members = name === 'properties' ? Object.entries(value as Record<string, Node>) : [];
    const silent = members.filter(([, schema]) => (schema['description'] ?? '') === '');
    return name === 'example' || name === 'examples'
      ? []
      : [...silent.map(([member]) => `${at}/${member}`), ...undescribed(value, at)];
  });
}

describe('the reference', () => {
  test('describes every member: add one that is missing to the words in src/http/openapi', () => {
    expect(undescribed(document)).toEqual([]);
  });

  test('describes every parameter, and what each operation is for', () => {
    const silent = operations().flatMap(
      ({ operation: { operationId, parameters = [], description = '' } }) => [
        ...(description === '' ? [operationId] : []),
        ...parameters
          .filter((one) => (one.description ?? '') === '')
          .map(({ name }) => `${operationId} ${name}`),
      ],
    );
    expect(silent).toEqual([]);
  });

  test('shows an answer of each operation that answers with JSON, which obeys its schema', () => {
    const book = new SchemaBook({ own: document });
    const wrong = operations().flatMap(({ path, method, operation: { operationId, responses } }) =>
      Object.entries(responses).flatMap(([status, { content }]) => {
        const json = content?.['application/json'];
        if (json?.schema === undefined || !status.startsWith('2')) {
          return [];
        }
        const pointer = `#/paths/${escapePart(path)}/${method}/responses/${status}/content/application~1json/schema`;
        return json.example === undefined
          ? [`${operationId} ${status} has no example`]
          : problemsOf(book.validatorOf('own', pointer), json.example).map(
              (problem) => `${operationId} ${status} ${problem}`,
            );
      }),
    );
    expect(wrong).toEqual([]);
  });

  test('lists the statuses of each operation, with the codes of each', () => {
    const known = CONTENTS.flatMap(({ operations: ids }) => ids);
    expect(Object.keys(REFUSALS).filter((id) => !known.includes(id))).toEqual([]);
    const missing = operations().flatMap(({ operation: { operationId, responses } }) =>
      (REFUSALS[operationId] ?? []).flatMap((code) => {
        const { $ref = '', description = '' } = responses[ERROR_CATALOGUE[code].status] ?? {};
        return $ref.endsWith(`/${code}`) || description.includes(`\`${code}\``)
          ? []
          : [`${operationId} ${code}`];
      }),
    );
    expect(missing).toEqual([]);
    for (const { operation } of operations()) {
      expect(Object.keys(operation.responses)).toEqual(expect.arrayContaining(['400', '429', '500', '503']));
    }
  });

  test('says which operations are public, and where the server is', () => {
    const open = operations().filter(({ operation: { security } }) => security?.length === 0);
    expect(operations().filter(({ operation: { security } }) => security === undefined)).toEqual([]);
    expect(open.map(({ path }) => path)).toEqual(
      expect.arrayContaining([
        '/v1/evidence/{evidence_id}',
        '/v1/action-kinds',
        '/health/live',
        '/openapi.json',
      ]),
    );
    expect(document['servers']).toEqual([{ url: '/', description: expect.any(String) }]);
  });

  test('has a webhook of each type of event', () => {
    expect(Object.keys(document.webhooks).sort()).toEqual(Object.keys(EVENT_PAYLOADS).sort());
    const ids = Object.values(document.webhooks).map(({ post }) => post.operationId);
    expect(new Set(ids).size).toBe(ids.length);
  });
});

describe('Redocly', () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'holdfast-reference-'));
  });

  afterAll(() => rm(folder, { recursive: true }));

  /** The rules that its recommended set finds broken. */
  async function broken(source: string): Promise<string[]> {
    const file = join(folder, 'openapi.json');
    await writeFile(file, source);
    const command = join(import.meta.dirname, '../../node_modules/@redocly/cli/bin/cli.js');
    const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
    const output = await new Promise<string>((resolve) => {
      execFile(
        process.execPath,
        [command, 'lint', file, '--format=json', '--max-problems=1000'],
        { env, cwd: folder, maxBuffer: 64 * 1024 * 1024 },
        // It exits with 1 if it finds something.
        (_error, stdout) => resolve(stdout),
      );
    });
    const { problems } = JSON.parse(output) as { problems: { ruleId: string; message: string }[] };
    return problems.map(({ ruleId, message }) => `${ruleId}: ${message}`);
  }

  test('finds nothing in the document, and would find an operation without security', async () => {
    expect(await broken(text)).toEqual([]);
    const { security: _, ...open } = document.paths['/health/live']?.['get'] as Operation;
    const paths = { ...document.paths, '/health/live': { get: open } };
    expect(await broken(JSON.stringify({ ...document, paths }))).toEqual([
      expect.stringContaining('security-defined'),
    ]);
  });
});
