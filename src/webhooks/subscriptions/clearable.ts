import { Obeys, type Rule, type Schema } from '../../wire/index.js';

type Test = (value: unknown) => boolean;

const SECRET = /^(?!whsec_)|^whsec_[A-Za-z0-9+/]+={0,2}$/;
/** What scopes are made of, and the wildcard. */
const SCOPE_PATTERN = /^[A-Za-z0-9_.:/*-]+$/;

/** A value that meets `test`, or null to take away what was set. */
export function Clearable(
  schema: Schema,
  test: Test,
  oversize: Rule['oversize'] = () => undefined,
): PropertyDecorator {
  const kind =
    schema.type === 'object' ? 'a JSON object' : `a text of at most ${schema.maxLength} characters`;
  const phrase = `${kind} as at its creation, or null to take it away`;
  return Obeys({
    name: 'clearable',
    test: (value) => value === null || test(value),
    schema: { ...schema, nullable: true },
    phrase,
    oversize,
  });
}

/** A text that is meant to be a URL; whether it may be one of a webhook is for the target policy to say. */
export function IsUrlText(): PropertyDecorator {
  return Obeys({
    name: 'isUrlText',
    test: (value) => typeof value === 'string',
    schema: { type: 'string', format: 'uri' },
  });
}

/** Text of so many characters at most, counted as JSON Schema does. */
export function isText(maxLength: number): Test {
  return (value) =>
    typeof value === 'string' && (value.length <= maxLength || [...value].length <= maxLength);
}

export const isSecret: Test = (value) => typeof value === 'string' && SECRET.test(value);

export const isScopePattern: Test = (value) => typeof value === 'string' && SCOPE_PATTERN.test(value);
