import { parseJson } from '../../http/index.js';

/** Hears of a stored text that is not what it should be; it is then left out of the answer. */
export type OnDamage = (reason: string) => void;

type Check = (value: unknown) => boolean;

const isObject: Check = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
/** Lengths count characters, as those of requests do. */
const isText = (value: unknown, most: number): boolean =>
  typeof value === 'string' && (value.length <= most || [...value].length <= most);

/** The free JSON of requests, in the shape that its schema has. */
const CHECKS: Readonly<Record<string, Check>> = {
  metadata: isObject,
  committed_metadata: isObject,
  dimensions: (value) =>
    isObject(value) && Object.values(value as object).every((entry) => isText(entry, 256)),
  tags: (value) => Array.isArray(value) && value.length <= 10 && value.every((entry) => isText(entry, 64)),
};

/** A member of an answer out of its stored JSON; none where there is no text, or one that Holdfast did not write. */
export function storedJson<Name extends string>(
  name: Name,
  text: string | null | undefined,
  onDamage?: OnDamage,
): Partial<Record<Name, never>> {
  if (text === undefined || text === null) {
    return {};
  }
  const value = parsed(text);
  if (value === undefined || CHECKS[name]?.(value) !== true) {
    onDamage?.('INVALID_JSON');
    return {};
  }
  return { [name]: value } as Partial<Record<Name, never>>;
}

function parsed(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** A text of 1 to so many characters, or what stands for one that the record does not have. */
export function storedText(text: string | undefined, most: number, onDamage?: OnDamage): string | undefined {
  if (text === undefined || text === '' || !isText(text, most)) {
    onDamage?.('INVALID_TEXT');
    return undefined;
  }
  return text;
}
