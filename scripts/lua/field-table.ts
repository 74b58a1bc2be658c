/** A row of lua/lib/field.lua, which describes its members. */
export interface FieldRow {
  readonly name: string;
  readonly stored: string;
  readonly kind: string;
  readonly of?: string;
  readonly member?: string;
  readonly most?: number;
  readonly otherwise?: string;
  readonly row?: true;
  readonly archived?: true;
  readonly long?: true;
  readonly untold?: true;
  readonly unattested?: true;
}

const ROW = /^ {2}\{ '(\w+)', '(\w+)', '(\w+)'((?:,\s+\w+ = (?:true|\d+|'\w+'))*) \},$/gm;
const MEMBER = /(\w+) = (true|\d+|'\w+')/g;

/** The rows of the table. @throws Error if a row has another form, or two fields one name. */
export function fieldRows(text: string): FieldRow[] {
  const rows = [...text.matchAll(ROW)].map(([, name = '', stored = '', kind = '', more = '']): FieldRow => {
    const members = [...more.matchAll(MEMBER)].map(([, member = '', value = '']) => [
      member,
      JSON.parse(value.replaceAll("'", '"')) as unknown,
    ]);
    return { name, stored, kind, ...(Object.fromEntries(members) as object) };
  });
  if (rows.length !== [...text.matchAll(/^ {2}\{/gm)].length) {
    throw new Error('a row of lua/lib/field.lua has not the form of one');
  }
  if (new Set(rows.flatMap(({ name, stored }) => [name, stored])).size !== 2 * rows.length) {
    throw new Error('lua/lib/field.lua has a name twice');
  }
  return rows;
}

/** What a request says that is kept, as `GIVEN_ROWS` in script-types.ts has it. */
export function givenRows(rows: readonly FieldRow[]): object[] {
  return rows
    .filter((row) => row.of !== undefined)
    .map(({ name, member = name, of, stored, kind, most, otherwise, long, unattested }) => ({
      ...{ of, member, stored, kind, most, otherwise, isLong: long, isUnattested: unattested },
    }));
}

/** The code of functions that append the given members of each part as field and value pairs: texts as they are, others as JSON. */
export function givenWriters(rows: readonly FieldRow[]): string {
  const writers = ['action', 'subject', 'request'].map((part) => {
    const lines = rows
      .filter((row) => row.of === part)
      .map(({ name, member = name, stored, kind }) => {
        const value = kind === 'text' ? `part.${member}` : `json(part.${member})`;
        return `if (part.${member} !== undefined) fields.push('${stored}', ${value});`;
      });
    return `${part}(part, fields, json) { ${lines.join(' ')} }`;
  });
  return `{ ${writers.join(', ')} }`;
}

/** A text of Lua with the stored names in place of `field.<name>`. */
export function withStoredNames(text: string, rows: readonly FieldRow[]): string {
  const stored = new Map(rows.map((row) => [row.name, row.stored]));
  return text.replace(/(?<![\w.'])field\.([a-z]\w*)/g, (all, name: string) =>
    stored.has(name) ? `'${stored.get(name) as string}'` : all,
  );
}
