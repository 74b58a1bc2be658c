/** @typedef {import('./run.mjs').Result} Result */

/** @param {string} text */
const cell = (text) => text.replaceAll('|', '\\|');

/** @param {Result} result */
function row({ mutant: { what, because }, noticed }) {
  return `| ${cell(what)} | ${cell(noticed ?? `Nobody can tell: ${because ?? '**no test notices**'}.`)} |`;
}

/**
 * docs/mutants.md: what each test of the scripts is good for.
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

\`npm run mutants -- --record\` writes this page. It changes scripts and services in one way at a time and notes the first test that fails: for a
script, of those that the list names and then of all tests of scripts (\`test/lua\`); for a service, of those that the list names. Of ${results.length} changes, the tests noticed ${results.length - survivors}.

The first runs found four changes that no test noticed: an idempotency record without its outcome, a reservation named twice in a page of expirations,
a charge capped by the root, and one API key more than allowed. Each has a test now. None of them was a fault of the scripts.

${sections.join('\n')}`;
}
