import { isPlainObject } from '../../wire/index.js';
import { GOVERNANCE_WORDS } from './governance-words.js';
import { OPERATIONS_WORDS } from './operations-words.js';
import { PARAMETER_WORDS } from './parameter-words.js';
import { RUNTIME_WORDS } from './runtime-words.js';

const WORDS: Readonly<Record<string, string>> = {
  ...RUNTIME_WORDS,
  ...GOVERNANCE_WORDS,
  ...OPERATIONS_WORDS,
};
const OF_PARAMETERS: Readonly<Record<string, string>> = PARAMETER_WORDS;

type Node = Readonly<Record<string, unknown>>;

/**
 * A part of the document in which each member of an object has a description. Those that have none get that of their name and type, or of
 * their name alone: a word means the same everywhere. Limits and formats are in the schema.
 */
export function described(part: unknown): unknown {
  if (Array.isArray(part)) {
    return part.map(described);
  }
  if (!isPlainObject(part)) {
    return part;
  }
  return Object.fromEntries(
    Object.entries(part).map(([name, value]) => [
      name,
      name === 'properties' && isPlainObject(value) ? describedMembers(value) : described(value),
    ]),
  );
}

function describedMembers(members: Node): Node {
  return Object.fromEntries(
    Object.entries(members).map(([name, schema]) => {
      const inner = described(schema) as Node;
      const words = inner['description'] === undefined ? wordsOf(name, inner) : undefined;
      return [name, words === undefined ? inner : { ...inner, description: words }];
    }),
  );
}

function wordsOf(name: string, { type, $ref }: Node): string | undefined {
  const reference = typeof $ref === 'string' ? $ref.replace(/^.*\//, '') : 'x';
  return WORDS[`${name}:${typeof type === 'string' ? type : reference}`] ?? WORDS[name];
}

/** What a parameter means, by its name. */
export function parameterWords(name: string, schema: unknown): string | undefined {
  return OF_PARAMETERS[name] ?? wordsOf(name, isPlainObject(schema) ? schema : {});
}
