/** One stored record. */
export type Fields = ReadonlyMap<string, string>;

/** Reads a flat list of field and value pairs, as HGETALL and the scripts give it. */
export function fieldsOf(flat: readonly string[]): Fields {
  const fields = new Map<string, string>();
  for (let index = 0; index + 1 < flat.length; index += 2) {
    fields.set(flat[index] as string, flat[index + 1] as string);
  }
  return fields;
}

/** @throws Error when a record lacks a field that every one has: Holdfast did not write it so. */
export function fieldOf(fields: Fields, name: string): string {
  const value = fields.get(name);
  if (value === undefined) {
    throw new Error(`corrupt record: it has no ${name}`);
  }
  return value;
}

/** A stored time in ms as RFC 3339 text. @throws Error when it is none. */
export function timeOf(ms: string): string {
  return new Date(/^-?\d{1,15}$/.test(ms) ? Number(ms) : Number.NaN).toISOString();
}

/** An optional stored time, as a member to spread into a response: absent, never null. */
export function optionalTime<Name extends string>(fields: Fields, name: Name): Partial<Record<Name, string>> {
  const ms = fields.get(name);
  return ms === undefined ? {} : ({ [name]: timeOf(ms) } as Partial<Record<Name, string>>);
}

/** An optional stored text, likewise. */
export function optionalText<Name extends string>(fields: Fields, name: Name): Partial<Record<Name, string>> {
  const text = fields.get(name);
  return text === undefined ? {} : ({ [name]: text } as Partial<Record<Name, string>>);
}
