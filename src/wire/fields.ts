/** The fields of a stored record. */
export type Fields = ReadonlyMap<string, string>;

/** From a flat list of names and values, as HGETALL and scripts return it. */
export function fieldsOf(flat: readonly string[]): Fields {
  const fields = new Map<string, string>();
  for (let index = 0; index + 1 < flat.length; index += 2) {
    fields.set(flat[index] as string, flat[index + 1] as string);
  }
  return fields;
}

/** @throws Error if the record lacks the field, which means that it is corrupt. */
export function fieldOf(fields: Fields, name: string): string {
  const value = fields.get(name);
  if (value === undefined) {
    throw new Error(`corrupt record: it has no ${name}`);
  }
  return value;
}

/** A stored time in ms as RFC 3339 text. @throws Error if it is not a number. */
export function timeOf(ms: string): string {
  return new Date(/^-?\d{1,15}$/.test(ms) ? Number(ms) : Number.NaN).toISOString();
}

/** An optional stored time as a member to spread into a response; no member if it is absent. */
export function optionalTime<Name extends string>(fields: Fields, name: Name): Partial<Record<Name, string>> {
  const ms = fields.get(name);
  return ms === undefined ? {} : ({ [name]: timeOf(ms) } as Partial<Record<Name, string>>);
}

/** Likewise, for an optional stored text. */
export function optionalText<Name extends string>(fields: Fields, name: Name): Partial<Record<Name, string>> {
  const text = fields.get(name);
  return text === undefined ? {} : ({ [name]: text } as Partial<Record<Name, string>>);
}
