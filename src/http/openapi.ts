import { applyDecorators, Injectable, type INestApplication } from '@nestjs/common';
import { ApiBody, ApiQuery, DocumentBuilder, SwaggerModule, type OpenAPIObject } from '@nestjs/swagger';
import { GOVERNANCE_ERROR_CODES, RUNTIME_ERROR_CODES } from '../ledger/index.js';
import { stringifyJson } from './json.js';
import { rulesToSchema, type DtoClass } from './validation/index.js';

/** Documents a request body with the rules that it is checked with. */
export function BodySchema(dto: DtoClass): MethodDecorator {
  return ApiBody({ required: true, schema: rulesToSchema(dto) as never });
}

/** Documents query parameters with the rules that they are checked with. */
export function QuerySchema(dto: DtoClass): MethodDecorator {
  const { properties = {}, required = [] } = rulesToSchema(dto);
  return applyDecorators(
    ...Object.entries(properties).map(([name, schema]) => ApiQuery({ name, required: required.includes(name), schema: schema as never })),
  );
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
      this.text = stringifyJson(withErrors(SwaggerModule.createDocument(this.app, description())));
    }
    return this.text;
  }
}

function description(): Omit<OpenAPIObject, 'paths'> {
  return new DocumentBuilder()
    .setTitle('Holdfast')
    .setDescription('A reservation and budget ledger. It speaks the Cycles protocol; paths under /ops, /health and /metrics are its own.')
    .setVersion('0.1.0')
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
  'X-Request-Id': { description: 'Names this request in logs, events and support.', schema: { type: 'string' } },
  'X-Cycles-Trace-Id': { description: 'Names the logical operation.', schema: { type: 'string', pattern: '^[0-9a-f]{32}$' } },
};

/** Every operation can answer with the one error form, so it is added in one place. */
function withErrors(document: OpenAPIObject): OpenAPIObject {
  const components = (document.components ??= {});
  components.schemas = { ...components.schemas, ErrorResponse: ERROR_SCHEMA };
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
        operation.responses = { ...operation.responses, default: { $ref: '#/components/responses/ErrorResponse' } };
      }
    }
  }
  return document;
}
