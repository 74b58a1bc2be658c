/**
 * @param {string} text of a Lua file
 * @param {import('./list.mjs').Mutation} mutation
 * @throws Error unless what the mutation changes stands in the file exactly once
 */
export function mutate(text, { what, find, put }) {
  const [before, after, ...more] = text.split(find);
  if (after === undefined || more.length > 0) {
    throw new Error(`"${what}" changes ${JSON.stringify(find)}, which must stand in the file exactly once`);
  }
  return `${before}${put}${after}`;
}
