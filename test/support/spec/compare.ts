import type { SpecSchema } from './documents.js';

/** Follows a schema's reference, whatever document it leads to. */
export type Resolve = (schema: SpecSchema) => SpecSchema;

export interface Side {
  readonly schema: SpecSchema;
  readonly resolve: Resolve;
}

const LIMITS = [
  'minimum',
  'maximum',
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'maxProperties',
  'pattern',
  'uniqueItems',
  'format',
];
/** An int64 has this bound because of its format. */
const INT64_MAX = Number(2n ** 63n);

/**
 * How our request schema differs from the protocol's, one line per difference; empty if both accept the same.
 * Rules that no limit expresses (`anyOf`, and `minProperties` beside it) are in our descriptions and tested
 * over HTTP.
 */
export function requestDifferences(spec: Side, ours: Side, at = ''): string[] {
  const theirs = resolved(spec);
  const own = resolved(ours);
  const lines = [
    ...typeDifferences(theirs, own, at),
    ...setDifferences('the values', theirs.enum, own.enum, at),
  ];
  lines.push(...setDifferences('required members', theirs.required, own.required, at));
  for (const limit of LIMITS) {
    if (theirs[limit] !== own[limit] && !isImplied(limit, theirs, own)) {
      lines.push(
        `${at || 'body'}: ${limit} is ${word(own[limit])}, the protocol's is ${word(theirs[limit])}`,
      );
    }
  }
  const names = setDifferences(
    'members',
    Object.keys(theirs.properties ?? {}),
    Object.keys(own.properties ?? {}),
    at,
  );
  lines.push(...names);
  if (open(theirs) !== open(own)) {
    lines.push(
      `${at || 'body'}: other members are ${open(own) ? 'taken' : 'refused'}, unlike in the protocol`,
    );
  }
  return [...lines, ...within(spec, ours, at, requestDifferences)];
}

/** A JSON number is a double already, and an int64 is bounded by its format. */
function isImplied(limit: string, theirs: SpecSchema, own: SpecSchema): boolean {
  return limit === 'maximum'
    ? theirs['format'] === 'int64' && Number(own[limit]) >= INT64_MAX
    : limit === 'format' && theirs[limit] === 'double' && own[limit] === undefined;
}

/**
 * Where our response schema allows what the protocol's does not. Ours may promise more: it may require
 * members that are optional there, and omit optional members that are never sent.
 */
export function answerDifferences(spec: Side, ours: Side, at = ''): string[] {
  const theirs = resolved(spec);
  const own = resolved(ours);
  const lines = typeDifferences(theirs, own, at);
  for (const name of theirs.required ?? []) {
    if (own.required?.includes(name) !== true) {
      lines.push(`${at || 'body'}: ${name} is not required`);
    }
  }
  for (const value of own.enum ?? []) {
    if (theirs.enum !== undefined && !theirs.enum.includes(value)) {
      lines.push(`${at || 'body'}: the protocol has no value ${String(value)}`);
    }
  }
  for (const name of Object.keys(own.properties ?? {})) {
    if (theirs.properties !== undefined && theirs.properties[name] === undefined) {
      lines.push(`${at || 'body'}: the protocol has no member ${name}`);
    }
  }
  if (theirs['format'] !== undefined && theirs['format'] !== own['format']) {
    lines.push(
      `${at || 'body'}: format is ${word(own['format'])}, the protocol's is ${word(theirs['format'])}`,
    );
  }
  return [...lines, ...within(spec, ours, at, answerDifferences)];
}

function within(
  spec: Side,
  ours: Side,
  at: string,
  compare: (spec: Side, ours: Side, at: string) => string[],
): string[] {
  const theirs = resolved(spec);
  const own = resolved(ours);
  const lines: string[] = [];
  for (const [name, schema] of Object.entries(own.properties ?? {})) {
    const other = theirs.properties?.[name];
    if (other !== undefined) {
      lines.push(
        ...compare({ ...spec, schema: other }, { ...ours, schema }, at === '' ? name : `${at}.${name}`),
      );
    }
  }
  if (theirs.items !== undefined && own.items !== undefined) {
    lines.push(...compare({ ...spec, schema: theirs.items }, { ...ours, schema: own.items }, `${at}[]`));
  }
  if (typeof theirs.additionalProperties === 'object' && typeof own.additionalProperties === 'object') {
    lines.push(
      ...compare(
        { ...spec, schema: theirs.additionalProperties },
        { ...ours, schema: own.additionalProperties },
        `${at}.*`,
      ),
    );
  }
  return lines;
}

function resolved({ schema, resolve }: Side): SpecSchema {
  return resolve(schema);
}

function typeDifferences(theirs: SpecSchema, own: SpecSchema, at: string): string[] {
  return theirs.type === undefined ||
    theirs.type === own.type ||
    (own.type === undefined && own.enum !== undefined)
    ? []
    : [`${at || 'body'}: the type is ${String(own.type)}, the protocol's is ${String(theirs.type)}`];
}

function setDifferences(
  what: string,
  theirs: readonly unknown[] = [],
  own: readonly unknown[] = [],
  at: string,
): string[] {
  const lacking = theirs.filter((entry) => !own.includes(entry));
  const added = own.filter((entry) => !theirs.includes(entry));
  return [
    ...(lacking.length > 0 ? [`${at || 'body'}: ${what} lack ${lacking.join(', ')}`] : []),
    ...(added.length > 0 ? [`${at || 'body'}: ${what} also hold ${added.join(', ')}`] : []),
  ];
}

/** Objects are open unless their schema says otherwise. */
function open({ type, additionalProperties }: SpecSchema): boolean {
  return [type].flat().includes('object') && additionalProperties !== false;
}

/** A limit as text. Every limit is a string, a number or a boolean. */
function word(limit: unknown): string {
  return typeof limit === 'object'
    ? JSON.stringify(limit)
    : `${limit as string | number | bigint | boolean | undefined}`;
}
