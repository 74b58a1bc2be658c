import type { SpecDocument, SpecParameter, SpecSchema } from '../spec/index.js';

/** One operation as our own OpenAPI document describes it, with what a request to it is made of. */
export interface Operation {
  readonly method: string;
  /** As the document writes it: `/v1/reservations/{reservation_id}`. */
  readonly template: string;
  readonly parameters: readonly SpecParameter[];
  readonly body: SpecSchema | undefined;
  /** Which of the two keys let a caller in; with neither, the operation is public. */
  readonly takes: { readonly apiKey: boolean; readonly adminKey: boolean };
}

export const nameOf = ({ method, template }: Operation): string => `${method} ${template}`;
export const isPublic = ({ takes }: Operation): boolean => !takes.apiKey && !takes.adminKey;

/** Every operation of the document, so that one which is added is covered from then on. */
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
