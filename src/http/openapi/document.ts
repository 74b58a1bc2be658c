import {
  applyDecorators,
  HttpCode,
  type INestApplication,
  Injectable,
  Param,
  type PipeTransform,
} from '@nestjs/common';
import {
  ApiBody,
  ApiExtension,
  ApiHeader,
  ApiOperation,
  ApiParam,
  ApiQuery,
  ApiResponse,
  DocumentBuilder,
  type OpenAPIObject,
  SwaggerModule,
} from '@nestjs/swagger';
import { HOLDFAST_VERSION } from '../../config/index.js';
import { invalidField } from '../../ledger/index.js';
import { bodyCheck, type DtoClass, queryCheck, rulesToSchema, stringifyJson } from '../../wire/index.js';
import { isOperatorsPlane } from '../operators-plane.js';
import { QueryParameters } from '../known-parameters.guard.js';
import type { SchemaName } from '../../answers/index.js';
import { HEADERS } from './shared-parts.js';
import { complete, type DocumentedWebhooks, SKIPS } from './complete.js';
import { CONTENTS, descriptionOf } from './contents.js';

/** Documents a request body with the rules that it is checked with, and with an example that works unchanged. */
export function BodySchema<T extends object>(
  dto: DtoClass<T>,
  example: NoInfer<T>,
  { required = true }: { required?: boolean } = {},
): MethodDecorator {
  // A fault in the rules stops the start, and not the first request.
  bodyCheck(dto);
  return ApiBody({ required, schema: { ...rulesToSchema(dto), examples: [example] } as never });
}

/** Documents query parameters with the rules that they are checked with. The example names the parameters that it sends. */
export function QuerySchema<T extends object>(
  dto: DtoClass<T>,
  example?: NoInfer<Partial<T>>,
): MethodDecorator {
  queryCheck(dto);
  const { properties = {}, required = [] } = rulesToSchema(dto);
  return applyDecorators(
    QueryParameters(Object.keys(properties)),
    ...Object.entries(properties).map(([name, schema]) => {
      const form = schema.type === 'array' ? { style: 'form' as const, explode: false } : {};
      const value = example?.[name as keyof T];
      return ApiQuery({
        name,
        required: required.includes(name),
        ...form,
        schema: { ...schema, ...(value === undefined ? {} : { examples: [value] }) } as never,
      });
    }),
  );
}

/** Names an operation. Without a description, its summary and its refusals describe it. */
export function Operation(operationId: string, summary = '', description?: string): MethodDecorator {
  return ApiOperation({ operationId, summary, ...(description === undefined ? {} : { description }) });
}

/** Documents a success. The schema is one of `ANSWER_SCHEMAS`; what can be refused is the same everywhere and needs no words. */
export function Answers(
  status: number,
  schema: SchemaName,
  description = status === 201 ? 'Created' : 'Done',
): MethodDecorator {
  return applyDecorators(
    HttpCode(status),
    ApiResponse({
      status,
      description,
      headers: HEADERS,
      schema: { $ref: `#/components/schemas/${schema}` },
    }),
  );
}

/** Documents a success without a body. */
export function AnswersNothing(): MethodDecorator {
  return applyDecorators(HttpCode(204), ApiResponse({ status: 204, description: 'Done', headers: HEADERS }));
}

/** Documents the header that names damaged records which the answer leaves out. */
export function SkipsDamaged(): MethodDecorator {
  return ApiExtension(SKIPS, true);
}

type HeaderSchema = NonNullable<Parameters<typeof ApiHeader>[0]['schema']>;

/** Documents a header that a request may have. */
const requestHeader = (name: string, schema: HeaderSchema, description: string) => (): MethodDecorator =>
  ApiHeader({ name, required: false, description, schema });

export const IdempotencyKeyHeader = requestHeader(
  'X-Idempotency-Key',
  { type: 'string', minLength: 1, maxLength: 256 },
  "May repeat the body's idempotency_key; when both are there they must be equal.",
);

export const ExplainHeader = requestHeader(
  'X-Holdfast-Explain',
  { type: 'string', enum: ['true', 'false'] },
  'If true, a refusal for lack of budget has in its details what is short, the holds in its way, and when to retry.',
);

export const WaitHeader = requestHeader(
  'X-Holdfast-Wait-Ms',
  { type: 'integer', minimum: 0, maximum: 30_000 },
  'How long the reserve may wait, in ms, if it lacks budget. It is answered as soon as it gets its funds, first come, first served, and is refused at the end of the time.',
);

export const ChargeOnExpiryHeader = requestHeader(
  'X-Holdfast-Charge-On-Expiry',
  { type: 'integer', format: 'int64', minimum: 0 },
  'What the reservation costs if it expires, in the unit of its estimate: from 0 to the estimate. It is then charged at every scope, and the rest returns. Without the header, the governing policy or the tenant says what share of the estimate that is; by default, it is nothing.',
);

/** The OpenAPI document, made when it is first asked for: it costs start time that no ledger operation needs. */
@Injectable()
export class OpenApiDocument {
  private described:
    { readonly app: INestApplication; readonly webhooks: () => DocumentedWebhooks } | undefined;
  private readonly texts = new Map<boolean, string>();

  describe(app: INestApplication, webhooks: () => DocumentedWebhooks): void {
    this.described = { app, webhooks };
  }

  /** @param withOperators whether the server that is asked has the operators' plane */
  json(withOperators = true): string {
    const text = this.texts.get(withOperators) ?? stringifyJson(this.make(withOperators));
    this.texts.set(withOperators, text);
    return text;
  }

  private make(withOperators: boolean): OpenAPIObject {
    if (this.described === undefined) {
      throw new Error('the application was not given to the OpenAPI document');
    }
    const document = SwaggerModule.createDocument(this.described.app, description(withOperators), {
      autoTagControllers: false,
    });
    if (!withOperators) {
      const isServed = ([path]: [string, unknown]): boolean => !isOperatorsPlane(path);
      document.paths = Object.fromEntries(Object.entries(document.paths).filter(isServed));
    }
    return complete(document, this.described.webhooks());
  }
}

const headerKey = (name: string, description: string) =>
  ({ type: 'apiKey', in: 'header', name, description }) as const;

function description(withOperators: boolean): Omit<OpenAPIObject, 'paths'> {
  const builder = new DocumentBuilder()
    .setOpenAPIVersion('3.1.1')
    .setTitle('Holdfast')
    .setDescription(descriptionOf(withOperators))
    .setVersion(HOLDFAST_VERSION)
    .setLicense('Apache-2.0', 'https://www.apache.org/licenses/LICENSE-2.0')
    .addApiKey(headerKey('X-Cycles-API-Key', 'The `key_secret` of an API key of a tenant.'), 'ApiKeyAuth')
    .addApiKey(
      headerKey('X-Admin-API-Key', "The deployment's `ADMIN_API_KEY`, or the key of an operator."),
      'AdminKeyAuth',
    );
  for (const { tag, description } of CONTENTS) {
    builder.addTag(tag, description);
  }
  return builder.build();
}

/** ReservationId of cycles-protocol-v0. */
const RESERVATION_ID_MAX_LENGTH = 128;

/** Counts code points, as JSON Schema does. @throws Refusal INVALID_REQUEST */
export function requireReservationId(id: string): string {
  if (id === '' || Array.from(id).length > RESERVATION_ID_MAX_LENGTH) {
    throw invalidField(
      'reservation_id',
      `reservation_id must be a string of 1 to ${RESERVATION_ID_MAX_LENGTH} characters`,
    );
  }
  return id;
}

const withinBounds: PipeTransform<string, string> = { transform: requireReservationId };

/** The id of a reservation in the path. Answers 400 outside the length limits of the protocol, before any look-up. */
export function ReservationId(): ParameterDecorator {
  return (target, method, index) => {
    Param('reservation_id', withinBounds)(target, method, index);
    const descriptor = Object.getOwnPropertyDescriptor(target, method as string) as PropertyDescriptor;
    ApiParam({
      name: 'reservation_id',
      schema: { type: 'string', minLength: 1, maxLength: RESERVATION_ID_MAX_LENGTH },
    })(target, method as string, descriptor);
  };
}
