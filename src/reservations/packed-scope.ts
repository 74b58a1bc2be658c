/**
 * The records of ended reservations are packed; lua/lib/record.lua describes the format. The tenant and the levels come first, in
 * pieces of 64 bytes. Twelve pieces always hold them: at most 64 characters of the tenant, 128 of each level, and the separators.
 */
const SEPARATOR = '\u001f';
const SCOPE_VALUES = 6;

export const PACKED_PIECES: readonly string[] = Array.from({ length: 12 }, (_, index) => String(index));

/** The tenant and the levels below it, from the first pieces of a record. Empty when the record is not packed. */
export function packedScope(pieces: readonly (string | null)[]): (string | null)[] {
  if (typeof pieces[0] !== 'string') {
    return [];
  }
  return scopeValues(pieces.join(''));
}

/** The same from a text that starts with them, such as the field `su` of a live record. */
export function scopeValues(text: string): (string | null)[] {
  const values = text.split(SEPARATOR).slice(0, SCOPE_VALUES);
  return values.map((value) => (value === '' ? null : value));
}
