/** @typedef {import('./run.mjs').Result} Result */

/** @param {string} text */
const cell = (text) => text.replaceAll('|', '\\|');

/** @param {Result} result */
function row({ mutant: { what, because }, noticed }) {
  return `| ${cell(what)} | ${cell(noticed ?? `Nobody can tell: ${because ?? '**no test notices**'}.`)} |`;
}

/**
 * docs/reference/mutants.md: what each test of the scripts is good for.
 * @param {readonly Result[]} results
 */
export function pageText(results) {
  const files = [...new Set(results.map(({ mutant }) => mutant.file))];
  const survivors = results.filter(({ noticed }) => noticed === undefined).length;
  const sections = files.map((file) => {
    const rows = results.filter(({ mutant }) => mutant.file === file).map(row);
    return `## \`${file.endsWith('.lua') ? 'lua' : 'src'}/${file}\`\n\n| What is wrong | Noticed by |\n| --- | --- |\n${rows.join('\n')}\n`;
  });
  return `# Mutants

\`npm run mutants -- --record\` writes this page; [Testing](../testing.md#mutants) explains it. Of ${results.length} changes, the tests noticed ${results.length - survivors}.

${sections.join('\n')}`;
}
