import type { OpenAPIObject } from '@nestjs/swagger';
import { stringifyJson } from '../../wire/index.js';
import { ANSWER_SCHEMAS, type AnswerSchema, type SchemaName } from '../../answers/index.js';
import { ERROR_SCHEMA, HEADERS, SKIPPED } from './shared-parts.js';
import { exampleOf } from './answer-examples.js';
import { CONTENTS, OPERATION_ORDER } from './contents.js';
import { described, parameterWords } from './described.js';
import { refusalComponents, refusalResponses } from './refusal-responses.js';
import { REFUSALS } from './refusals.js';

/** Marks operations whose answers leave damaged records out. It is replaced by a header. */
export const SKIPS = 'x-holdfast-skips';

/** Swagger UI fills a parameter in from an example beside its schema, which @nestjs/swagger drops, and not from one inside. */
function showExample(parameter: Parameter): void {
  if (!('name' in parameter) || parameter.schema === undefined) {
    return;
  }
  const { examples, ...schema } = parameter.schema as { examples?: [unknown] };
  const example = parameter.name === 'tenant_id' && parameter.in === 'path' ? 'acme' : examples?.[0];
  if (example !== undefined) {
    Object.assign(parameter, { example, schema });
  }
}

function documentSkips(operation: OperationObject & { [SKIPS]?: boolean }): void {
  if (operation[SKIPS] !== true) {
    return;
  }
  delete operation[SKIPS];
  for (const [status, response] of Object.entries(operation.responses)) {
    if (status.startsWith('2')) {
      Object.assign(response as object, { headers: { ...HEADERS, ...SKIPPED } });
    }
  }
}

type Paths = OpenAPIObject['paths'];
type Method = (typeof METHODS)[number];
type OperationObject = NonNullable<Paths[string][Method]>;
type Parameter = NonNullable<OperationObject['parameters']>[number];

const METHODS = ['get', 'post', 'put', 'patch', 'delete'] as const;

/** What is sent instead of served, with the headers that it has. */
export interface DocumentedWebhooks {
  readonly webhooks: Readonly<Record<string, object>>;
  readonly headers: Readonly<Record<string, object>>;
}

/** Adds what all operations share: the one error form, and the schemas that they refer to. */
export function complete(document: OpenAPIObject, { webhooks, headers }: DocumentedWebhooks): OpenAPIObject {
  const components = (document.components ??= {});
  components.responses = {
    ...components.responses,
    ErrorResponse: {
      description: 'Any refusal or failure',
      headers: HEADERS,
      content: { 'application/json': { schema: { $ref: '#/components/schemas/ErrorResponse' } } },
    },
  };
  document.paths = inOrder(document.paths);
  document.servers = [{ url: '/', description: 'The server that this document comes from.' }];
  components.parameters = { ...components.parameters, ...headers } as NonNullable<
    typeof components.parameters
  >;
  document.webhooks = webhooks;
  for (const { operation } of operationsOf(document.paths)) {
    const section = CONTENTS.find(({ operations }) => operations.includes(operation.operationId ?? ''));
    (operation.parameters ?? []).forEach(showExample);
    documentSkips(operation);
    operation.security ??= [];
    operation.tags = section === undefined ? [] : [section.tag];
    operation.description ??= purposeOf(operation);
    (operation.parameters ?? []).forEach(describeParameter);
    showAnswers(operation);
    operation.responses = {
      ...refusalResponses(operation),
      ...operation.responses,
      default: { $ref: '#/components/responses/ErrorResponse' },
    };
  }
  const sections = new Set(operationsOf(document.paths).flatMap(({ operation }) => operation.tags ?? []));
  document.tags = (document.tags ?? []).filter(({ name }) => sections.has(name));
  const text = stringifyJson(document.paths);
  const refusals = Object.entries(refusalComponents()).filter(([name]) =>
    text.includes(`"#/components/responses/${name}"`),
  );
  components.responses = {
    ...components.responses,
    ...(Object.fromEntries(refusals) as NonNullable<typeof components.responses>),
  };
  components.schemas = { ...components.schemas, ...usedSchemas(document), ErrorResponse: ERROR_SCHEMA };
  return described(document) as OpenAPIObject;
}

function purposeOf({ summary = '', operationId = '' }: OperationObject): string {
  const own = REFUSALS[operationId] ?? [];
  const codes = own.map((code) => `\`${code}\``).join(', ');
  return own.length === 0 ? `${summary}.` : `${summary}. Refusals of its own: ${codes}.`;
}

function describeParameter(parameter: Parameter): void {
  if ('name' in parameter) {
    parameter.description ??= parameterWords(parameter.name, parameter.schema) ?? '';
  }
}

/** Gives each success an example, so that a reader sees its form. */
function showAnswers({ responses }: OperationObject): void {
  for (const [status, response] of Object.entries(responses)) {
    const json = (response as { content?: Record<string, { schema?: AnswerSchema; example?: unknown }> })
      .content?.['application/json'];
    if (status.startsWith('2') && json?.schema !== undefined) {
      json.example ??= exampleOf(json.schema, (name) => ANSWER_SCHEMAS[name as SchemaName]);
    }
  }
}

function operationsOf(paths: Paths): { path: string; method: Method; operation: OperationObject }[] {
  return Object.entries(paths).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = item[method];
      return operation === undefined ? [] : [{ path, method, operation }];
    }),
  );
}

/** The paths by their first operation in the contents. Operations that are not there, which only tests have, come last. */
function inOrder(paths: Paths): Paths {
  const rankOf = ({ operationId = '' }: OperationObject): number => {
    const rank = OPERATION_ORDER.indexOf(operationId);
    return rank === -1 ? OPERATION_ORDER.length : rank;
  };
  const ordered: Paths = {};
  for (const { path, method, operation } of operationsOf(paths).sort(
    (a, b) => rankOf(a.operation) - rankOf(b.operation),
  )) {
    (ordered[path] ??= {})[method] = operation;
  }
  return ordered;
}

const REFERENCE = /"#\/components\/schemas\/(\w+)"/g;

/** The answer schemas that the document refers to, and those that these refer to; the rest belongs to operations that are not served. */
function usedSchemas(document: OpenAPIObject): Record<string, never> {
  const used = new Set<SchemaName>();
  const collect = (part: unknown): void => {
    for (const [, name] of stringifyJson(part).matchAll(REFERENCE)) {
      const schema = name as SchemaName;
      if (Object.hasOwn(ANSWER_SCHEMAS, schema) && !used.has(schema)) {
        used.add(schema);
        collect(ANSWER_SCHEMAS[schema]);
      }
    }
  };
  collect([document.paths, document.webhooks]);
  return Object.fromEntries([...used].sort().map((name) => [name, ANSWER_SCHEMAS[name] as never]));
}
