import { libraryOf, scriptOf } from '../../scripts/lua/library.js';
import { libraryText } from '../../src/redis/script-library.js';

/** The text for EVAL of a script that is not in `lua`, with the parts that it includes. */
export function probeText(text: string): string {
  const name = /^-- (\w+): /m.exec(text)?.[1] ?? '';
  const script = scriptOf(`${name}.lua`, text);
  const { body, functionNames } = libraryOf([script]);
  return libraryText(script.header.flags, body).replace(
    'table.remove(ARGV)',
    `'${functionNames.get(name) ?? ''}'`,
  );
}
