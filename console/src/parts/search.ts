/** Picks the named members of a URL's query that are texts. Filters are optional; anything else is dropped. */
export function textsOf<Name extends string>(
  search: Record<string, unknown>,
  names: readonly Name[],
): Partial<Record<Name, string>> {
  const found: Partial<Record<Name, string>> = {};
  for (const name of names) {
    const value = search[name];
    if (typeof value === 'string' && value !== '') {
      found[name] = value;
    } else if (typeof value === 'number' || typeof value === 'boolean') {
      found[name] = String(value);
    }
  }
  return found;
}
