/**
 * Ended records are packed: lua/lib/record.lua describes how. The tenant and the levels stand first, in pieces of 64 bytes, and
 * together they are never longer than these pieces: 64 characters of the tenant, 128 of each level, and the separators.
 */
const SEPARATOR = '\u001f';
const SCOPE_VALUES = 6;

export const PACKED_PIECES: readonly string[] = Array.from({ length: 12 }, (_, index) => String(index));

/** The tenant and the levels below it out of the first pieces of a record; nothing when the record is not packed. */
export function packedScope(pieces: readonly (string | null)[]): (string | null)[] {
  if (typeof pieces[0] !== 'string') {
    return [];
  }
  return scopeValues(pieces.join(''));
}

/** The same out of a text that starts with them, as the field `su` of a live record does too. */
export function scopeValues(text: string): (string | null)[] {
  const values = text.split(SEPARATOR).slice(0, SCOPE_VALUES);
  return values.map((value) => (value === '' ? null : value));
}
