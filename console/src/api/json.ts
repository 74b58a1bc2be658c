/**
 * JSON with exact 64-bit integers. JavaScript rounds numbers beyond 2^53, so integers of sixteen digits or more are read as strings;
 * `Int64` is either form, and parts/amount.tsx turns both into a bigint.
 */
export type Int64 = number | string;

const STRING_OR_LONG_INTEGER = /"(?:[^"\\]|\\.)*"|-?\d{16,}(?![\d.eE])/g;

export function parseExact(text: string): unknown {
  return JSON.parse(
    text.replace(STRING_OR_LONG_INTEGER, (token) => (token.startsWith('"') ? token : `"${token}"`)),
  );
}

/** Writes bigints as JSON numbers. */
export function stringifyExact(value: unknown): string {
  const digits: string[] = [];
  const text = JSON.stringify(value, (_key, member: unknown) => {
    if (typeof member !== 'bigint') {
      return member;
    }
    digits.push(member.toString());
    return `\u0000${digits.length - 1}`;
  });
  return text.replace(/"\\u0000(\d+)"/g, (_match, index: string) => digits[Number(index)] ?? '');
}
