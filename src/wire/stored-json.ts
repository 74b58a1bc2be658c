import { isPlainObject } from './exact-json.js';

/** Whether a value has a form. */
export type Form<T> = (value: unknown) => value is T;

export const isText: Form<string> = (value) => typeof value === 'string';

export const isTextLike =
  (pattern: RegExp): Form<string> =>
  (value): value is string =>
    typeof value === 'string' && pattern.test(value);

export const isOneOf =
  <T extends string>(...values: readonly T[]): Form<T> =>
  (value): value is T =>
    (values as readonly unknown[]).includes(value);

/** A whole number from 0 on. */
export const isCount: Form<number> = (value): value is number =>
  Number.isSafeInteger(value) && Number(value) >= 0;

export const isListOf =
  <T>(isEntry: Form<T>): Form<T[]> =>
  (value): value is T[] =>
    Array.isArray(value) && value.every(isEntry);

export const isMapOf =
  <T>(isMember: Form<T>): Form<Record<string, T>> =>
  (value): value is Record<string, T> =>
    isPlainObject(value) && Object.values(value).every(isMember);

export const isOptional =
  <T>(isPresent: Form<T>): Form<T | undefined> =>
  (value): value is T | undefined =>
    value === undefined || isPresent(value);

/** Members that are not named may have any form: a later version may have added them. */
export const isObject =
  <T extends object>(members: { readonly [Name in keyof T]-?: Form<T[Name]> }): Form<T> =>
  (value): value is T =>
    isPlainObject(value) &&
    (Object.keys(members) as (keyof T & string)[]).every((name) => members[name](value[name]));

/** Stored JSON that no version of Holdfast has written. */
export class MalformedJson extends Error {
  override readonly name = 'MalformedJson';
}

/**
 * Reads JSON that was stored earlier, in Redis or in a file, where anything may have changed it.
 * @param what names it to operators
 * @throws MalformedJson
 */
export function readStored<T>(text: string, form: Form<T>, what: string): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new MalformedJson(`${what} is no JSON: ${(error as Error).message}`);
  }
  if (!form(value)) {
    throw new MalformedJson(`${what} has another form than it was stored in`);
  }
  return value;
}

/** The same of a list of texts. */
export const readTexts = (text: string, what: string): string[] => readStored(text, isListOf(isText), what);
