import { expect } from '@jest/globals';

/** An operation as the service's own document describes it, as far as its example needs. */
export interface DescribedOperation {
  readonly operationId: string;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly example?: string | number | boolean;
  }[];
  readonly requestBody?: {
    readonly content: {
      readonly 'application/json': {
        readonly schema: { readonly examples?: readonly Record<string, unknown>[] };
      };
    };
  };
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, object>> }>>;
  readonly security?: readonly Readonly<Record<string, unknown>>[];
}

export interface ExampleRequest {
  readonly method: string;
  readonly path: string;
  readonly body?: Record<string, unknown>;
}

export interface Described {
  readonly template: string;
  readonly method: string;
  readonly operation: DescribedOperation;
}

export interface ServedDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, DescribedOperation>>>>;
}

/** The examples of the OpenAPI document that the service serves. */
export class OpenApiExamples {
  private readonly operations: ReadonlyMap<string, Described>;

  constructor(document: ServedDocument) {
    this.operations = new Map(
      Object.entries(document.paths).flatMap(([template, item]) =>
        Object.entries(item).map(([method, operation]): [string, Described] => [
          operation.operationId,
          { template, method, operation },
        ]),
      ),
    );
  }

  operation(id: string): Described {
    const found = this.operations.get(id);
    if (found === undefined) {
      throw new Error(`${id} is not in the document`);
    }
    return found;
  }

  /**
   * The request of an operation's example. `idOf` provides what an example cannot know: ids that the server
   * assigns.
   */
  request(id: string, idOf: (name: string) => string): ExampleRequest {
    const { template, method, operation } = this.operation(id);
    const schema = operation.requestBody?.content['application/json'].schema;
    if (schema !== undefined && schema.examples?.length !== 1) {
      throw new Error(`${id} takes a body and has no example`);
    }
    const body = schema?.examples?.[0];
    const query = new URLSearchParams();
    let path = template;
    for (const { name, in: place, example, required } of operation.parameters ?? []) {
      if (place === 'path') {
        path = path.replace(`{${name}}`, String(example ?? idOf(name)));
      } else if (example !== undefined) {
        expect(place).toBe('query');
        query.set(name, String(example));
      } else if (required === true) {
        throw new Error(`${template} needs ${name} and has no example of it`);
      }
    }
    return {
      method: method.toUpperCase(),
      path: query.size === 0 ? path : `${path}?${query.toString()}`,
      ...(body === undefined ? {} : { body }),
    };
  }
}
