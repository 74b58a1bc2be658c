import { readFileSync } from 'node:fs';

export type Plane = 'runtime' | 'governance';
export const PLANES = ['runtime', 'governance'] as const;

/** A schema of the documents. Only the members that tests read are listed. */
export interface SpecSchema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, SpecSchema>>;
  readonly required?: readonly string[];
  readonly items?: SpecSchema;
  readonly additionalProperties?: boolean | SpecSchema;
  readonly [keyword: string]: unknown;
}

export interface SpecParameter {
  readonly $ref?: string;
  readonly name: string;
  readonly in: 'path' | 'query' | 'header' | 'cookie';
  readonly required?: boolean;
  readonly schema?: SpecSchema;
}

export interface SpecResponse {
  readonly $ref?: string;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly content?: Readonly<Record<string, { readonly schema: SpecSchema }>>;
}

interface SpecOperationObject {
  readonly operationId: string;
  readonly parameters?: readonly SpecParameter[];
  readonly requestBody?: {
    readonly required?: boolean;
    readonly content: Readonly<Record<string, { readonly schema: SpecSchema }>>;
  };
  readonly responses: Readonly<Record<string, SpecResponse>>;
  readonly security?: readonly Readonly<Record<string, unknown>>[];
}

export interface SpecDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, SpecOperationObject>>>>;
  readonly security?: readonly Readonly<Record<string, unknown>>[];
}

export type SpecDocuments = Readonly<Record<Plane, SpecDocument>>;

/** One operation of the protocol, with its references to components resolved one level deep. */
export interface SpecOperation {
  readonly id: string;
  readonly plane: Plane;
  readonly method: string;
  /** As in the document: `/v1/reservations/{reservation_id}`. */
  readonly template: string;
  readonly parameters: readonly SpecParameter[];
  readonly body:
    { readonly required: boolean; readonly schema: SpecSchema; readonly pointer: string } | undefined;
  readonly responses: ReadonlyMap<number, SpecResponse>;
  /** Names of the security schemes, any one of which is sufficient. */
  readonly schemes: readonly string[];
  /** Where the response schemas are in the document, as JSON pointers, by status. */
  readonly responsePointers: ReadonlyMap<number, string>;
}

export interface Spec {
  readonly documents: SpecDocuments;
  readonly operations: readonly SpecOperation[];
}

const METHODS = ['get', 'post', 'put', 'patch', 'delete'];
const JSON_TYPE = 'application/json';

let loaded: Spec | undefined;

/** Why there are no documents to compare with, or undefined if there are. */
export function specAbsence(): string | undefined {
  return process.env['TEST_SPEC_FILE'] === undefined
    ? (process.env['TEST_SPEC_ABSENT'] ?? 'the run did not prepare the documents')
    : undefined;
}

/** The protocol's documents, or undefined if this run has none (see `specAbsence`). */
export function loadSpec(): Spec | undefined {
  const file = process.env['TEST_SPEC_FILE'];
  if (loaded === undefined && file !== undefined) {
    const documents = JSON.parse(readFileSync(file, 'utf8')) as SpecDocuments;
    loaded = { documents, operations: operationsOf(documents) };
  }
  return loaded;
}

function operationsOf(documents: SpecDocuments): SpecOperation[] {
  const operations = new Map<string, SpecOperation>();
  for (const plane of PLANES) {
    for (const [template, item] of Object.entries(documents[plane].paths)) {
      for (const method of METHODS) {
        const name = `${method.toUpperCase()} ${template}`;
        const found = item[method];
        if (found !== undefined && !operations.has(name)) {
          operations.set(name, readOperation(documents, plane, template, method, found));
        }
      }
    }
  }
  return [...operations.values()];
}

function readOperation(
  documents: SpecDocuments,
  plane: Plane,
  template: string,
  method: string,
  found: SpecOperationObject,
): SpecOperation {
  const document = documents[plane];
  const responses = new Map<number, SpecResponse>();
  const responsePointers = new Map<number, string>();
  for (const [status, response] of Object.entries(found.responses)) {
    const at = response.$ref ?? `#/paths/${escapePart(template)}/${method}/responses/${status}`;
    const resolved = follow<SpecResponse>(document, response);
    responses.set(Number(status), resolved);
    if (resolved.content?.[JSON_TYPE] !== undefined) {
      responsePointers.set(Number(status), `${at}/content/${escapePart(JSON_TYPE)}/schema`);
    }
  }
  const bodyPointer = `#/paths/${escapePart(template)}/${method}/requestBody/content/${escapePart(JSON_TYPE)}/schema`;
  const bodySchema = found.requestBody?.content[JSON_TYPE]?.schema;
  return {
    id: found.operationId,
    plane,
    method: method.toUpperCase(),
    template,
    parameters: (found.parameters ?? []).map((parameter) => follow<SpecParameter>(document, parameter)),
    body:
      bodySchema === undefined
        ? undefined
        : { required: found.requestBody?.required === true, schema: bodySchema, pointer: bodyPointer },
    responses,
    schemes: (found.security ?? document.security ?? []).flatMap((alternative) => Object.keys(alternative)),
    responsePointers,
  };
}

/** Escapes one part of a JSON pointer. */
export function escapePart(part: string): string {
  return part.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** The object itself, or the one that its `$ref` refers to in the same document. */
export function follow<T extends { readonly $ref?: string }>(document: SpecDocument, value: T): T {
  if (value.$ref === undefined) {
    return value;
  }
  let target: unknown = document;
  for (const part of value.$ref.replace(/^#\//, '').split('/')) {
    target = (target as Record<string, unknown>)[part.replaceAll('~1', '/').replaceAll('~0', '~')];
  }
  if (target === undefined) {
    throw new Error(`the document has nothing at ${value.$ref}`);
  }
  return follow(document, target as T);
}

/**
 * The operation that a request addresses. Literal parts of a path take precedence over parameters, whatever
 * the method.
 */
export function findOperation(spec: Spec, method: string, path: string): SpecOperation | undefined {
  const template = findPath(spec, path)?.template;
  return spec.operations.find((operation) => operation.template === template && operation.method === method);
}

/**
 * GET /v1/balances of the governance document. The runtime document has the same operation; only a filter of
 * the governance plane selects this one.
 */
export function governanceBalances(
  { documents }: Spec,
  method: string,
  pathAndQuery: string,
): SpecOperation | undefined {
  const found = documents.governance.paths['/v1/balances']?.['get'];
  const isAsked =
    method === 'GET' && /^\/v1\/balances\?(?:.*&)?(?:tenant_id|scope_prefix|unit)=/.test(pathAndQuery);
  return isAsked && found !== undefined
    ? readOperation(documents, 'governance', '/v1/balances', 'get', found)
    : undefined;
}

/** Any operation with this path, whatever its method. */
export function findPath(spec: Spec, path: string): SpecOperation | undefined {
  return bestMatch(spec.operations, path);
}

function bestMatch(operations: readonly SpecOperation[], path: string): SpecOperation | undefined {
  const parts = (path.split('?', 1)[0] ?? '').split('/');
  const matching = operations.filter(({ template }) => {
    const wanted = template.split('/');
    return (
      wanted.length === parts.length &&
      wanted.every((part, index) => (part.startsWith('{') ? parts[index] !== '' : part === parts[index]))
    );
  });
  const literals = ({ template }: SpecOperation): number =>
    template.split('/').filter((part) => !part.startsWith('{')).length;
  return matching.sort((a, b) => literals(b) - literals(a))[0];
}
