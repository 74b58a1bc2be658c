import { applyDecorators, type INestApplication, Injectable } from '@nestjs/common';
import {
  ApiBody,
  ApiHeader,
  ApiQuery,
  ApiResponse,
  DocumentBuilder,
  type OpenAPIObject,
  SwaggerModule,
} from '@nestjs/swagger';
import { HOLDFAST_VERSION } from '../../config/index.js';
import { GOVERNANCE_ERROR_CODES, RUNTIME_ERROR_CODES } from '../../ledger/index.js';
import { type DtoClass, rulesToSchema, stringifyJson } from '../../wire/index.js';
import { ANSWER_SCHEMAS, type SchemaName } from './schemas.js';

/** Documents a request body with the rules that it is checked with. */
export function BodySchema(dto: DtoClass, { required = true }: { required?: boolean } = {}): MethodDecorator {
  return ApiBody({ required, schema: rulesToSchema(dto) as never });
}

/** Documents query parameters with the rules that they are checked with. */
export function QuerySchema(dto: DtoClass): MethodDecorator {
  const { properties = {}, required = [] } = rulesToSchema(dto);
  return applyDecorators(
    ...Object.entries(properties).map(([name, schema]) => {
      const form = schema.type === 'array' ? { style: 'form' as const, explode: false } : {};
      return ApiQuery({ name, required: required.includes(name), ...form, schema: schema as never });
    }),
  );
}

/** Documents a success. The schema is one of schemas.ts; what can be refused is the same everywhere and needs no words. */
export function Answers(
  status: number,
  schema: SchemaName,
  description = status === 201 ? 'Created' : 'Done',
): MethodDecorator {
  return ApiResponse({
    status,
    description,
    headers: HEADERS,
    schema: { $ref: `#/components/schemas/${schema}` },
  });
}

/** Documents a success without a body. */
export function AnswersNothing(): MethodDecorator {
  return ApiResponse({ status: 204, description: 'Done', headers: HEADERS });
}

/** Documents the header that may repeat the body's idempotency key. */
export function IdempotencyKeyHeader(): MethodDecorator {
  return ApiHeader({
    name: 'X-Idempotency-Key',
    required: false,
    description: "May repeat the body's idempotency_key; when both are there they must be equal.",
    schema: { type: 'string', minLength: 1, maxLength: 256 },
  });
}

/** The OpenAPI document, made when it is first asked for: it costs start time that no ledger operation needs. */
@Injectable()
export class OpenApiDocument {
  private app: INestApplication | undefined;
  private text: string | undefined;

  describe(app: INestApplication): void {
    this.app = app;
  }

  json(): string {
    if (this.text === undefined) {
      if (this.app === undefined) {
        throw new Error('the application was not given to the OpenAPI document');
      }
      this.text = stringifyJson(complete(SwaggerModule.createDocument(this.app, description())));
    }
    return this.text;
  }
}

function description(): Omit<OpenAPIObject, 'paths'> {
  return new DocumentBuilder()
    .setTitle('Holdfast')
    .setDescription(
      'A reservation and budget ledger. It speaks the Cycles protocol; paths under /ops, /health and /metrics are its own.',
    )
    .setVersion(HOLDFAST_VERSION)
    .setLicense('Apache-2.0', 'https://www.apache.org/licenses/LICENSE-2.0')
    .addApiKey({ type: 'apiKey', in: 'header', name: 'X-Cycles-API-Key' }, 'ApiKeyAuth')
    .addApiKey({ type: 'apiKey', in: 'header', name: 'X-Admin-API-Key' }, 'AdminKeyAuth')
    .build();
}

const ERROR_SCHEMA = {
  type: 'object',
  required: ['error', 'message', 'request_id'],
  additionalProperties: false,
  properties: {
    error: { type: 'string', enum: [...RUNTIME_ERROR_CODES, ...GOVERNANCE_ERROR_CODES] },
    message: { type: 'string' },
    request_id: { type: 'string' },
    trace_id: { type: 'string', pattern: '^[0-9a-f]{32}$' },
    details: { type: 'object', additionalProperties: true },
  },
};

const HEADERS = {
  'X-Request-Id': {
    description: 'Names this request in logs, events and support.',
    schema: { type: 'string' },
  },
  'X-Cycles-Trace-Id': {
    description: 'Names the logical operation.',
    schema: { type: 'string', pattern: '^[0-9a-f]{32}$' },
  },
};

/** Adds what all operations share: the one error form, and the schemas that they refer to. */
function complete(document: OpenAPIObject): OpenAPIObject {
  const components = (document.components ??= {});
  components.responses = {
    ...components.responses,
    ErrorResponse: {
      description: 'Any refusal or failure',
      headers: HEADERS,
      content: { 'application/json': { schema: { $ref: '#/components/schemas/ErrorResponse' } } },
    },
  };
  for (const item of Object.values(document.paths)) {
    for (const method of ['get', 'post', 'put', 'patch', 'delete'] as const) {
      const operation = item[method];
      if (operation !== undefined) {
        operation.responses = {
          ...operation.responses,
          default: { $ref: '#/components/responses/ErrorResponse' },
        };
      }
    }
  }
  components.schemas = { ...components.schemas, ...usedSchemas(document), ErrorResponse: ERROR_SCHEMA };
  return document;
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
  collect(document.paths);
  return Object.fromEntries([...used].sort().map((name) => [name, ANSWER_SCHEMAS[name] as never]));
}
