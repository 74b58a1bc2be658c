import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { describe, expect, test } from '@jest/globals';

/** Rules that apply to every file of the repository. ESLint and Prettier check the rest. */

const ROOT = new URL('../../', import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, ROOT), 'utf8');

/** The names in .gitignore, by path, name or extension, and git's own folder. */
const NOT_OURS = ['.git', ...read('.gitignore').split('\n')].map((name) => name.replace(/\/$/, ''));
const isOurs = (path: string): boolean =>
  !NOT_OURS.some((name) =>
    name.startsWith('*.') ? path.endsWith(name.slice(1)) : `/${path}`.endsWith(`/${name}`),
  );

function filesBelow(folder: string): string[] {
  return readdirSync(new URL(folder, ROOT), { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}${entry.name}`;
    if (!isOurs(path)) {
      return [];
    }
    return entry.isDirectory() ? filesBelow(`${path}/`) : [path];
  });
}

const FILES = filesBelow('');
const TEXTS = FILES.filter((file) => !file.endsWith('.png')).map((file): [file: string, text: string] => [
  file,
  read(file),
]);
const PAGES = FILES.filter((file) => file.endsWith('.md') && file !== 'CHANGELOG.md' && !isRecord(file));

/** Generated files, which nobody reads from start to end. */
const WRITTEN = ['package-lock.json', 'docs/reference/events.md', 'docs/reference/mutants.md'];
const MAX_LINES = 600;

/** Whether the file is a benchmark's report, which describes the day of its run. */
function isRecord(file: string): boolean {
  return file.startsWith('bench/results/');
}

/** The lines of all files that match, as `file:line`. Skips this file, which contains what it forbids. */
function linesWith(pattern: RegExp): string[] {
  return TEXTS.filter(([file]) => file !== 'test/contracts/hygiene.test.ts').flatMap(([file, text]) =>
    text.split('\n').flatMap((line, index) => (pattern.test(line) ? [`${file}:${index + 1}`] : [])),
  );
}

describe('every file', () => {
  test(`has at most ${MAX_LINES} lines`, () => {
    expect(FILES.length).toBeGreaterThan(500);
    const long = TEXTS.filter(
      ([file, text]) =>
        !WRITTEN.includes(file) && file !== 'CHANGELOG.md' && text.split('\n').length - 1 > MAX_LINES,
    );
    expect(long.map(([file]) => file)).toEqual([]);
  });

  test('ends with one line feed, and has no other line ends, trailing blanks, tabs or conflict marks', () => {
    expect(TEXTS.filter(([, text]) => !/[^\n]\n$/.test(text)).map(([file]) => file)).toEqual([]);
    expect(linesWith(/[ \t\r]$|\t|^(<<<<<<<|=======|>>>>>>>)( |$)/)).toEqual([]);
    expect(TEXTS.filter(([, text]) => text.startsWith('\uFEFF')).map(([file]) => file)).toEqual([]);
  });

  test('contains no to-do mark', () => {
    expect(linesWith(/\b(TODO|FIXME|XXX|HACK)\b/)).toEqual([]);
  });

  test('names no folder of a machine, and no registry', () => {
    expect(linesWith(/(?<![\w.~-])\/(root|work|home\/\w+|Users\/\w+)\//)).toEqual([]);
    expect(linesWith(/\bregistry\.[a-z]+\.(org|com|dev|io)\b|"resolved":/)).toEqual([]);
  });

  test('calls the audit log and the audit view by these names', () => {
    expect(linesWith(/audit.?trail/i)).toEqual([]);
  });

  test('turns a check off only with a reason', () => {
    const directives = linesWith(/eslint-disable|@ts-(ignore|nocheck|expect-error)/);
    const reasoned = linesWith(/eslint-disable\S* .* -- \S|@ts-expect-error \S/);
    expect(directives.filter((line) => !reasoned.includes(line))).toEqual([]);
  });

  test('has a name in lower case with hyphens, without the number of an issue', () => {
    const usual = [
      'Dockerfile',
      'CHANGELOG.md',
      'CONTRIBUTING.md',
      'LICENSE',
      'README.md',
      'SECURITY.md',
      'Chart.yaml',
      'NOTES.txt',
    ];
    const names = FILES.flatMap((file) => file.split('/')).filter((name) => !usual.includes(name));
    // Lua scripts are named after their function, and Python imports modules and packages by their names.
    expect(
      names.filter((name) => !/^[.a-z0-9][a-z0-9.-]*$|^[a-z0-9_]+\.(lua|py)$|^holdfast_litellm$/.test(name)),
    ).toEqual([]);
    expect(FILES.filter((file) => /(issue|fix|bug|gh)[-_]?\d/.test(file))).toEqual([]);
  });
});

describe('the comments of the code', () => {
  const CODE = TEXTS.filter(([file]) => file.startsWith('.') || /\.(ts|tsx|mjs|js|lua)$/.test(file));
  const comments = CODE.flatMap(([file, text]) => {
    const inScripts = /\/\*[^]*?\*\/|(?<![:'"`\w])\/\/.*$/gm;
    const pattern = /\.lua(checkrc)?$/.test(file) ? /--.*$/gm : file.startsWith('.') ? /#.*$/gm : inScripts;
    return [...text.matchAll(pattern)].map(([comment]) => ({ file, comment }));
  });
  /** What the comments name and the repository lacks. */
  const missing = (pattern: RegExp, exists: (name: string) => boolean): string[] =>
    comments.flatMap(({ file, comment }) =>
      [...comment.matchAll(pattern)].flatMap(([name]) => (exists(name) ? [] : [`${file}: ${name}`])),
    );

  test('name only files and folders that exist', () => {
    // Tests are abbreviated in places, as in `test/property/ledger` and `lua/reserve`.
    const isThere = (path: string): boolean =>
      ['', 'test/'].some((folder) =>
        ['', '.test.ts'].some((ending) => existsSync(new URL(`${folder}${path}${ending}`, ROOT))),
      );
    const path = /(?<![\w./@-])(?:src|lua|test|bench|scripts|deploy|docs|spec|console|\.ci)\/[\w./-]*\w/g;
    expect(comments.length).toBeGreaterThan(2000);
    expect(missing(path, isThere)).toEqual([]);
  });

  test('name files without their folder only if there is one of that name', () => {
    // Generated, so it is none of our files.
    const names = new Set([...FILES.map((file) => basename(file)), 'keys.ts', 'script-types.ts']);
    expect(
      missing(/(?<![\w./*@-])[a-z][\w-]*(?:\.[\w-]+)*\.(?:ts|tsx|mjs|lua)\b/g, (name) => names.has(name)),
    ).toEqual([]);
    const parts = missing(/(?<![\w./@-])lib\/\w+(?:\.lua)?/g, (name) =>
      names.has(`${basename(name, '.lua')}.lua`),
    );
    expect(parts.filter((part) => /^lua\//.test(part))).toEqual([]);
  });
});

describe('the tests', () => {
  test('have a folder for each layer of src, and others for what is of none', () => {
    const ofNone = [
      'cluster',
      'compatibility',
      'container',
      'contracts',
      'fault',
      'integrations',
      'lua',
      'property',
      'runs',
    ];
    const folders = new Set(
      FILES.filter((file) => /^test\/[^/]+\//.test(file)).map((file) => file.split('/')[1] as string),
    );
    const strange = [...folders].filter(
      (folder) => ![...ofNone, 'support'].includes(folder) && !existsSync(new URL(`src/${folder}`, ROOT)),
    );
    expect(strange).toEqual([]);
  });

  test('are run: a file that has tests is named so', () => {
    const unnamed = TEXTS.filter(
      ([file, text]) =>
        /^test\/.*\.ts$/.test(file) &&
        /^\s*(test|describe)(\.each)?\(/m.test(text) &&
        !/\.test\.ts$/.test(file),
    );
    // test/runs executes the fixtures in runs of its own.
    expect(unnamed.map(([file]) => file).filter((file) => !file.endsWith('.fixture.ts'))).toEqual([]);
  });
});

test('every metric is named in a test, because nobody would notice that another one never moves', () => {
  const texts = (folder: string): string[] =>
    TEXTS.filter(([file]) => file.startsWith(folder) && file.endsWith('.ts')).map(([, text]) => text);
  const names = texts('src/').flatMap((text) =>
    [...text.matchAll(/\bname: '((?:holdfast|cycles)_\w+)'/g)].map(([, name]) => name as string),
  );
  expect(new Set(names).size).toBeGreaterThan(100);
  const tests = texts('test/').join('\n');
  expect(names.filter((name) => !new RegExp(`\\b${name}(_count|_sum|_bucket)?\\b`).test(tests))).toEqual([]);
});

describe('the package', () => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
  /** The steps that the scripts above consist of. */
  const INTERNAL = ['jest', 'build', 'start'];

  test('explains each of its scripts in docs/development.md', () => {
    const page = read('docs/development.md');
    const explained = [...page.matchAll(/`npm (?:run )?([\w:-]+)/g)].map(([, name]) => name);
    expect(
      Object.keys(scripts).filter((name) => !INTERNAL.includes(name) && !explained.includes(name)),
    ).toEqual([]);
  });

  test('is locked to versions, and not to where they were downloaded', () => {
    expect(read('.npmrc')).toContain('omit-lockfile-registry-resolved=true\n');
    const { packages } = JSON.parse(read('package-lock.json')) as {
      packages: Record<string, { resolved?: string; version?: string }>;
    };
    expect(Object.entries(packages).filter(([, { resolved }]) => resolved !== undefined)).toEqual([]);
    expect(Object.entries(packages).filter(([path, { version }]) => path !== '' && !version)).toEqual([]);
  });

  test('has its own version in the lock file and in the changelog', () => {
    const { version } = JSON.parse(read('package.json')) as { version: string };
    const lock = JSON.parse(read('package-lock.json')) as { version: string };
    expect(lock.version).toBe(version);
    expect(read('CHANGELOG.md')).toContain(`\n## ${version}`);
  });
});

describe.each(PAGES)('%s', (page) => {
  const text = read(page);
  const base = new URL(page, ROOT);

  test('links only to files and headings that exist', () => {
    const prose = text.replaceAll(/```[^]*?```/g, '');
    const links = [...prose.matchAll(/\]\((?!https?:)([^)]+)\)/g)].map(([, link]) => link as string);
    expect(links.filter((link) => !isReachable(new URL(link, base)))).toEqual([]);
  });

  test('names only files and folders of the repository that exist', () => {
    const paths = [
      ...text.matchAll(/(?<![\w./-])(?:src|lua|test|bench|scripts|deploy|docs|\.ci)\/[\w./-]*/g),
    ].map(([path]) => path.replace(/\.$/, ''));
    // The pages on compatibility abbreviate tests, as in `lua/reserve`.
    const isTest = (path: string): boolean => existsSync(new URL(`test/${path}.test.ts`, ROOT));
    expect(paths.filter((path) => !existsSync(new URL(path, ROOT)) && !isTest(path))).toEqual([]);
  });

  test('names only npm scripts that exist', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const named = [...text.matchAll(/\bnpm (?:run (?:--silent )?([\w:-]+)|(test)\b)/g)].map(
      ([, script, other]) => (script ?? other) as string,
    );
    expect(named.filter((name) => scripts[name] === undefined)).toEqual([]);
  });
});

test('the README links to every page of docs', () => {
  const linked = [...read('README.md').matchAll(/\]\((docs\/[^)#]+)/g)].map(([, link]) => link);
  expect(PAGES.filter((page) => dirname(page) === 'docs' && !linked.includes(page))).toEqual([]);
});

function isReachable(link: URL): boolean {
  const anchor = link.hash.slice(1);
  const file = new URL(link.pathname, link);
  return existsSync(file) && (anchor === '' || headingAnchors(readFileSync(file, 'utf8')).includes(anchor));
}

/** The anchors that GitHub gives to a page's headings. */
function headingAnchors(text: string): string[] {
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    (heading as string)
      .toLowerCase()
      .replaceAll(/[^\w\s-]/g, '')
      .replaceAll(' ', '-'),
  );
}
