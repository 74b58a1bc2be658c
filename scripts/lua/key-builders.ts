import { camelCase } from './header.js';

const BUILDER = /((?:^-- .*\n)*)^function keys\.(\w+)\(([\w, ]*)\)\s+return (.*?)\s+end$/gm;
const JOINED = /^(?:'[^'`$\\]*'|\w+)(?: \.\. (?:'[^'`$\\]*'|\w+))*$/;
/** Parameters that are one of some texts. */
const ONE_OF: Readonly<Record<string, string>> = { log: "'audit' | 'audit-brief' | 'refused'" };
/** Parameters that are numbers. */
const NUMBER = /_s$|^(?:day|minute|slot)$/;

/**
 * The functions of lua/lib/keys.lua that only join texts, in TypeScript. `keys.budget` becomes `budgetKey`, and `keys.wake_channel`,
 * whose name says what it is, `wakeChannel`.
 */
export function keyBuilders(text: string): string {
  return [...text.matchAll(BUILDER)]
    .filter(([, , name = '', , joined = '']) => name !== 'of_name' && JOINED.test(joined))
    .map(([, comment = '', name = '', given = '', joined = '']) => {
      const parameters = given.split(', ').filter((one) => one !== '');
      const types = parameters.map(
        (one) => `${camelCase(one)}: ${ONE_OF[one] ?? (NUMBER.test(one) ? 'number' : 'string')}`,
      );
      const parts = joined
        .split(' .. ')
        .map((part) => (part.startsWith("'") ? part.slice(1, -1) : `\${${camelCase(part)}}`));
      const doc = comment.replaceAll(/^-- /gm, '').trimEnd().replaceAll('\n', ' ');
      const called = name.endsWith('_channel') ? name : `${name}_key`;
      return `${doc === '' ? '' : `/** ${doc} */\n`}export const ${camelCase(called)} = (${types.join(', ')}): string => \`${parts.join('')}\`;\n`;
    })
    .join('');
}
