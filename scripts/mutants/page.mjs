/** @typedef {import('./run.mjs').Result} Result */

/** @param {string} text */
const cell = (text) => text.replaceAll('|', '\\|');
const NOBODY = 'Nobody can tell: ';

/** @param {Result} result */
function row({ mutant: { what, because }, noticed }) {
  return `| ${cell(what)} | ${cell(noticed ?? `${NOBODY}${because ?? '**no test notices**'}.`)} |`;
}

/** @param {string} file */
const headingOf = (file) => `## \`${file.endsWith('.lua') ? 'lua' : 'src'}/${file}\``;

/**
 * The rows of a page by heading.
 * @param {string} page
 */
function rowsOf(page) {
  const sections = page.split(/^(?=## )/m).slice(1);
  return new Map(
    sections.map((section) => {
      const [heading = '', ...lines] = section.split('\n');
      return [heading, lines.filter((line) => /^\| (?!What is wrong|---)/.test(line))];
    }),
  );
}

/**
 * The tests that noticed changes of a file, by their paths below test/.
 * @param {string} page
 * @param {string} file
 */
export function testsOf(page, file) {
  const rows = rowsOf(page).get(headingOf(file)) ?? [];
  return [...new Set(rows.flatMap((text) => /\| `(\S+)` “/.exec(text)?.[1] ?? []))];
}

/**
 * docs/reference/mutants.md: what each test of the scripts is good for. Files without results keep the rows of mutations that are still listed.
 * @param {readonly Result[]} results
 * @param {import('./list.mjs').Mutations} list
 * @param {string} former
 */
export function pageText(results, list, former) {
  const known = rowsOf(former);
  const sections = Object.entries(list).map(([file, mutations]) => {
    const found = results.filter(({ mutant }) => mutant.file === file).map(row);
    const heading = headingOf(file);
    const kept = (known.get(heading) ?? []).filter((text) =>
      mutations.some(({ what }) => text.startsWith(`| ${cell(what)} |`)),
    );
    return { heading, rows: found.length > 0 ? found : kept };
  });
  const rows = sections.flatMap((section) => section.rows);
  const noticed = rows.filter((text) => !text.includes(`| ${NOBODY}`)).length;
  const tables = sections.map(
    (section) =>
      `${section.heading}\n\n| What is wrong | Noticed by |\n| --- | --- |\n${section.rows.join('\n')}\n`,
  );
  return `# Mutants

\`npm run mutants -- --record\` writes this page; [Testing](../testing.md#mutants) explains it. Of ${rows.length} changes, the tests noticed ${noticed}.

${tables.join('\n')}`;
}
