/** Whose budgets a call is charged to; at least one level. Values may have any characters: see {@link segment}. */
export interface Subject {
  readonly tenant?: string | undefined;
  readonly workspace?: string | undefined;
  readonly app?: string | undefined;
  readonly workflow?: string | undefined;
  readonly agent?: string | undefined;
  readonly toolset?: string | undefined;
  readonly dimensions?: Readonly<Record<string, string>> | undefined;
}

const LEVELS = ['tenant', 'workspace', 'app', 'workflow', 'agent', 'toolset'] as const;
const MAX_LENGTH = 128;
const PLAIN = /^[a-zA-Z0-9_-]$/;

const hex = (bytes: Uint8Array): string[] => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0'));

/**
 * The value as a segment of a scope. Different values give different segments, except for upper and lower case. A character that no
 * segment may have becomes two dots and two hexadecimal digits for each byte: `ann@example.com` is `ann..40example.com`. So does a dot
 * next to such a character or to another dot, because two dots would be ambiguous.
 */
export async function segment(value: string): Promise<string> {
  const encoder = new TextEncoder();
  const chars = [...value];
  const isPlain = (char: string | undefined): boolean => char === undefined || PLAIN.test(char);
  const text = chars
    .map((char, index) =>
      isPlain(char) || (char === '.' && isPlain(chars[index - 1]) && isPlain(chars[index + 1]))
        ? char
        : hex(encoder.encode(char))
            .map((byte) => `..${byte}`)
            .join(''),
    )
    .join('');
  if (text.length <= MAX_LENGTH) {
    return text;
  }
  const hash = await crypto.subtle.digest('SHA-256', encoder.encode(value));
  // `..h` begins no escape, so no shorter value has this segment.
  return `${text.slice(0, 92)}..h${hex(new Uint8Array(hash)).join('').slice(0, 32)}`;
}

/** The subject as Holdfast takes it. A level without a value is left out. */
export async function subjectOf(given: Subject): Promise<Subject> {
  const levels = LEVELS.flatMap((level) => {
    const value = given[level];
    return value === undefined || value === '' ? [] : [{ level, value }];
  });
  const pairs = levels.map(async ({ level, value }) => [level, await segment(value)] as const);
  const subject: Subject = Object.fromEntries(await Promise.all(pairs));
  return given.dimensions === undefined ? subject : { ...subject, dimensions: given.dimensions };
}
