import type { SpecDocument, SpecParameter, SpecSchema } from '../spec/index.js';

/** An operation as our own OpenAPI document describes it, with everything that a request to it needs. */
export interface Operation {
  readonly method: string;
  /** As in the document: `/v1/reservations/{reservation_id}`. */
  readonly template: string;
  readonly parameters: readonly SpecParameter[];
  readonly body: SpecSchema | undefined;
  /** Which of the two keys the operation accepts. If neither, it is public. */
  readonly takes: { readonly apiKey: boolean; readonly adminKey: boolean };
}

export const nameOf = ({ method, template }: Operation): string => `${method} ${template}`;
export const isPublic = ({ takes }: Operation): boolean => !takes.apiKey && !takes.adminKey;

/** Every operation of the document, so that a new one is covered automatically. */
export function operationsOf(document: SpecDocument): Operation[] {
  return Object.entries(document.paths).flatMap(([template, item]) =>
    Object.entries(item).map(([method, { parameters = [], requestBody, security = [] }]) => ({
      method: method.toUpperCase(),
      template,
      parameters,
      body: requestBody?.content['application/json']?.schema,
      takes: {
        apiKey: security.some((scheme) => 'ApiKeyAuth' in scheme),
        adminKey: security.some((scheme) => 'AdminKeyAuth' in scheme),
      },
    })),
  );
}
