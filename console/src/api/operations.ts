import type { components, paths } from './openapi';

/** A schema of the API by its name, as `readJson` returns what it describes: int64 is a bigint where a number would be rounded. */
export type Schema<Name extends keyof components['schemas']> = components['schemas'][Name];

export type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';

/** The paths that have the method, as the API's document writes them: `/v1/admin/tenants/{tenant_id}`. */
export type Path<M extends Method> = {
  [P in keyof paths]: paths[P] extends Readonly<Record<M, unknown>> ? P : never;
}[keyof paths];

type Operation<M extends Method, P extends Path<M>> = paths[P][M];

/** Filters come from URLs, which anybody can write. What a value may be, the server decides. */
export type Value = string | number | boolean | undefined;
type Values<Names> = [NonNullable<Names>] extends [never]
  ? object
  : { readonly [Name in keyof NonNullable<Names>]?: Value };

/** The parameters of an operation by their names, whether they belong to its path or to its query. */
export type Parameters<M extends Method, P extends Path<M>> = (Operation<M, P> extends {
  parameters: { path: infer InPath extends object };
}
  ? InPath
  : object) &
  (Operation<M, P> extends { parameters: { query?: infer InQuery } } ? Values<InQuery> : object);

type Json<Content> = Content extends { content: { 'application/json': infer J } } ? J : undefined;

/** What an operation answers if it succeeds. */
export type Answer<M extends Method, P extends Path<M>> =
  Operation<M, P> extends { responses: infer Responses }
    ? Json<Responses[keyof Responses & (200 | 201 | 202)]>
    : never;

/** How a list goes on. */
export interface Page {
  readonly has_more: boolean;
  readonly next_cursor?: string;
}

export type ListPath = {
  [P in Path<'get'>]: Answer<'get', P> extends Page ? P : never;
}[Path<'get'>];

/** Members that may be absent may be undefined: they are not sent. */
type Sent<T> = T extends object
  ? { [Name in keyof T]: Sent<T[Name]> | (object extends Pick<T, Name> ? undefined : never) }
  : T;

/** What an operation is asked with. */
export type Body<M extends Method, P extends Path<M>> =
  Operation<M, P> extends { requestBody?: infer Content } ? Sent<Json<NonNullable<Content>>> : undefined;
