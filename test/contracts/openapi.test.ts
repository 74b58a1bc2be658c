import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { openApiDocument } from '../../console/document.js';
import { CONTENTS } from '../../src/http/openapi/contents.js';
import { RouteTable } from '../../src/http/route-table.js';
import { readJson, stringifyJson } from '../../src/wire/exact-json.js';
import { shows } from '../compatibility/shows.js';
import { Holdfast } from '../support/holdfast.js';
import {
  answerDifferences,
  follow,
  loadSpec,
  OWN_OPERATIONS,
  requestDifferences,
  type Side,
  type Spec,
  specAbsence,
  type SpecDocument,
  type SpecOperation,
  type SpecParameter,
  type SpecSchema,
} from '../support/spec/index.js';
import { DIFFERENCES } from './openapi-differences.js';

interface OwnOperation {
  readonly operationId: string;
  readonly summary?: string;
  readonly tags?: readonly string[];
  readonly parameters?: readonly SpecParameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: SpecSchema }>> };
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: SpecSchema }>> }>
  >;
  readonly security?: readonly Readonly<Record<string, unknown>>[];
}

type OwnDocument = SpecDocument & {
  readonly paths: Readonly<Record<string, Readonly<Record<string, OwnOperation>>>>;
};

const JSON_TYPE = 'application/json';

/** The listed differences, one line each. */
const KNOWN = DIFFERENCES.flatMap(({ operations, fields, says }) =>
  fields === undefined
    ? [{ operations, line: says }]
    : fields.map((field) => ({ operations, line: `${field}: ${says}` })),
);

const SETTINGS = { HOLDFAST_TEST_CLOCK: 'true' };

let holdfast: Holdfast;
let document: OwnDocument;

beforeAll(async () => {
  holdfast = await Holdfast.start(SETTINGS);
  document = (await holdfast.call('GET', '/openapi.json')).body as OwnDocument;
});

afterAll(() => holdfast.stop());

function ownOperations(): [name: string, operation: OwnOperation][] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]): [string, OwnOperation] => [
      `${method.toUpperCase()} ${path}`,
      operation,
    ]),
  );
}

describe('our own document', () => {
  test('is OpenAPI 3.1, and its schemas are JSON Schema 2020-12', async () => {
    expect((document as unknown as { openapi: string }).openapi).toMatch(/^3\.1\.\d$/);
    // The int64 bounds are bigints here, but JSON has only numbers.
    const plain = JSON.parse(stringifyJson(document)) as Record<string, unknown>;
    expect(await new Validator().validate(plain)).toEqual({ valid: true });
    const ajv = new Ajv2020({ strict: false });
    const wrong = schemasIn(plain).filter((schema) => ajv.validateSchema(schema) !== true);
    expect(wrong).toEqual([]);
    expect(stringifyJson(document)).not.toMatch(/"nullable"|"exclusiveM(in|ax)imum":(true|false)/);
  });

  test('puts every operation into one section, in the order of the contents', () => {
    const { tags } = document as unknown as { tags: { name: string }[] };
    expect(tags.map(({ name }) => name)).toEqual(CONTENTS.map(({ tag }) => tag));
    const sections = new Map(ownOperations().map(([, { operationId, tags: own }]) => [operationId, own]));
    expect(CONTENTS.flatMap(({ tag, operations }) => operations.map((id) => [id, [tag]]))).toEqual(
      CONTENTS.flatMap(({ operations }) => operations.map((id) => [id, sections.get(id)])),
    );
    expect(sections.size).toBe(CONTENTS.flatMap(({ operations }) => operations).length);
  });

  test('describes exactly the routes that are served', () => {
    // Every GET also serves HEAD, which OpenAPI would need a separate operation for.
    const served = holdfast.app
      .get(RouteTable)
      .list()
      // The console has its own operations, which are not part of the API.
      .filter((route) => !route.startsWith('HEAD ') && !route.includes(' /console'))
      .map((route) => route.replaceAll(/:(\w+)/g, '{$1}'));
    expect(
      ownOperations()
        .map(([name]) => name)
        .sort(),
    ).toEqual(served.sort());
  });

  test('is the same without Redis, where the types of the console come from', async () => {
    expect(readJson(await openApiDocument(SETTINGS))).toEqual(document);
  });

  test('names every operation once, with its purpose and its responses', () => {
    const ids = ownOperations().map(([, { operationId }]) => operationId);
    expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([]);
    for (const [name, { operationId, summary, responses }] of ownOperations()) {
      expect({ name, operationId }).toEqual({ name, operationId: expect.stringMatching(/^[a-z][A-Za-z]+$/) });
      expect({ name, summary }).toEqual({ name, summary: expect.stringMatching(/\S/) });
      const described = Object.entries(responses).filter(
        ([status, { content }]) => status.startsWith('2') && (content !== undefined || status === '204'),
      );
      expect({ name, described: described.length }).not.toEqual({ name, described: 0 });
    }
  });

  test('refers only to existing components, and has no unused ones', () => {
    const names = [...stringifyJson(document).matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(
      ([, name]) => name as string,
    );
    const { schemas } = (document as unknown as { components: { schemas: Record<string, unknown> } })
      .components;
    expect([...new Set(names)].sort()).toEqual(Object.keys(schemas).sort());
  });
});

const absence = specAbsence();
const withSpec = absence === undefined ? describe : describe.skip;

withSpec(`our document beside the protocol's${absence === undefined ? '' : ` (skipped: ${absence})`}`, () => {
  /** The protocol's operations that we serve, each with ours. */
  function pairs(): [SpecOperation, OwnOperation][] {
    const own = new Map(ownOperations());
    return (loadSpec() as Spec).operations.flatMap((operation): [SpecOperation, OwnOperation][] => {
      const found = own.get(`${operation.method} ${operation.template}`);
      return found === undefined ? [] : [[operation, found]];
    });
  }

  function differencesOf(operation: SpecOperation, own: OwnOperation): string[] {
    const spec = (loadSpec() as Spec).documents[operation.plane];
    return [
      ...parameterDifferences(spec, operation, own),
      ...securityDifferences(operation, own),
      ...bodyDifferences(spec, operation, own),
      ...successDifferences(spec, operation, own),
    ];
  }

  test('uses its operation ids', () => {
    for (const [operation, own] of pairs()) {
      expect(`${operation.template} ${own.operationId}`).toBe(`${operation.template} ${operation.id}`);
    }
  });

  test('has no operation under /v1 that the protocol lacks, but for those that are listed', () => {
    shows('no proof of payment');
    const known = new Set(
      (loadSpec() as Spec).operations.map(({ method, template }) => `${method} ${template}`),
    );
    expect(
      ownOperations()
        .map(([name]) => name)
        .filter((name) => name.includes(' /v1/') && !known.has(name)),
    ).toEqual(OWN_OPERATIONS);
  });

  test('takes its parameters and bodies and gives its answers, but for the differences that are listed with their reasons', () => {
    shows('additive fields');
    const unexplained = pairs().flatMap(([operation, own]) =>
      differencesOf(operation, own)
        .filter(
          (line) =>
            !KNOWN.some(
              (known) =>
                known.line === line &&
                (known.operations === 'all' || known.operations.includes(operation.id)),
            ),
        )
        .map((line) => `${operation.id} | ${line}`),
    );
    expect(unexplained).toEqual([]);
  });

  test('still has every difference that is listed', () => {
    const found = pairs().map(([operation, own]): [string, string[]] => [
      operation.id,
      differencesOf(operation, own),
    ]);
    const gone = KNOWN.flatMap(({ operations, line }) => {
      const without = found
        .filter(([id, lines]) => (operations === 'all' || operations.includes(id)) && !lines.includes(line))
        .map(([id]) => id);
      return operations === 'all'
        ? without.length === found.length
          ? [`all | ${line}`]
          : []
        : without.map((id) => `${id} | ${line}`);
    });
    expect(gone).toEqual([]);
  });
});

/** Every schema under a `schema` member or among the components; nested schemas are validated with it. */
function schemasIn(value: unknown): object[] {
  if (typeof value !== 'object' || value === null) {
    return [];
  }
  return Object.entries(value).flatMap(([name, entry]: [string, unknown]) =>
    name === 'schema'
      ? [entry as object]
      : name === 'schemas'
        ? Object.values(entry as object)
        : schemasIn(entry),
  );
}

function sides(spec: SpecDocument, theirs: SpecSchema, own: SpecSchema): [Side, Side] {
  return [
    { schema: theirs, resolve: (schema) => follow(spec, schema) },
    { schema: own, resolve: (schema) => follow(document, schema) },
  ];
}

function parameterDifferences(spec: SpecDocument, operation: SpecOperation, own: OwnOperation): string[] {
  const lines: string[] = [];
  const ours = own.parameters ?? [];
  for (const theirs of operation.parameters) {
    const found = ours.find(
      ({ name, in: place }) => place === theirs.in && name.toLowerCase() === theirs.name.toLowerCase(),
    );
    if (found === undefined) {
      lines.push(`${theirs.in} ${theirs.name} is not accepted`);
    } else {
      if ((found.required ?? false) !== (theirs.required ?? false)) {
        lines.push(
          `${theirs.in} ${theirs.name} is ${found.required === true ? 'required' : 'optional'}, unlike in the protocol`,
        );
      }
      if (theirs.schema !== undefined && found.schema !== undefined) {
        lines.push(...requestDifferences(...sides(spec, theirs.schema, found.schema), theirs.name));
      }
    }
  }
  const known = operation.parameters.map(({ name }) => name.toLowerCase());
  const added = ours
    .filter(({ name }) => !known.includes(name.toLowerCase()))
    .map((parameter) => `${parameter.in} ${parameter.name} is unknown to the protocol`);
  return [...lines, ...added];
}

function securityDifferences(operation: SpecOperation, own: OwnOperation): string[] {
  const ours = (own.security ?? []).flatMap((alternative) => Object.keys(alternative)).sort();
  const theirs = [...operation.schemes].sort();
  return ours.join() === theirs.join()
    ? []
    : [`accepts ${ours.join(', ') || 'nothing'}, the protocol accepts ${theirs.join(', ') || 'nothing'}`];
}

function bodyDifferences(spec: SpecDocument, { body }: SpecOperation, own: OwnOperation): string[] {
  const ours = own.requestBody?.content[JSON_TYPE]?.schema;
  if (body === undefined || ours === undefined) {
    return (body === undefined) === (ours === undefined)
      ? []
      : [`a body is ${ours === undefined ? 'not described' : 'unknown to the protocol'}`];
  }
  return requestDifferences(...sides(spec, body.schema, ours));
}

function successDifferences(spec: SpecDocument, operation: SpecOperation, own: OwnOperation): string[] {
  const lines: string[] = [];
  for (const [status, response] of operation.responses) {
    const theirs = response.content?.[JSON_TYPE]?.schema;
    if (status >= 300 || theirs === undefined) {
      continue;
    }
    const ours = own.responses[String(status)]?.content?.[JSON_TYPE]?.schema;
    if (ours === undefined) {
      lines.push(`the response ${status} has no schema`);
      continue;
    }
    lines.push(...answerDifferences(...sides(spec, theirs, ours)).map((line) => `${status} ${line}`));
  }
  const declared = Object.keys(own.responses).filter(
    (status) => status.startsWith('2') && !operation.responses.has(Number(status)),
  );
  return [...lines, ...declared.map((status) => `the protocol does not have the response ${status}`)];
}
