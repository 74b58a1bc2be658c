// Runs luacheck over every file of lua by itself, with what it includes declared where its header names it. So a name that is used
// without an include is undefined, and one that is included without use is unused. Part of npm run lint.
// Without luacheck it says so and succeeds; with LUACHECK=required, as in .ci/run, it fails.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadTools } from './load.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const COLUMNS = 120;
const FIELDS = 'lib/field.lua';
/** Files about records of other kinds: subscriptions and deliveries, events, audit rows, and lists of several kinds. */
const OTHER_RECORDS = new RegExp(
  `^(?:${[
    'webhooks/.*',
    'events/.*',
    'overview/.*',
    'spikes/.*',
    'audit/list_audit_log',
    'audit/lib/expiration',
    'governance/lib/disable_webhook_of_closed_tenant',
    'lib/(?:webhook_record|event_writer|audit_log|audit_row|audit_index|listing)',
  ].join('|')})\\.lua$`,
);
/** Called by the code that scripts/lua/library.ts puts around a script. */
const CALLED_FROM_OUTSIDE = [
  'audit_log.with_audited_request',
  'attest.attested_reply',
  'grouped.run_calls',
  'all_or_none.run_set',
];

const { fieldRows, importsOf, luaPaths, readLua } = await loadTools();

/** @param {string} path */
const partAt = (path) => /(?:^|\/)lib\/(\w+)\.lua$/.exec(path)?.[1];

/** @param {string} text */
const withoutComments = (text) => text.replaceAll(/^\s*--.*$/gm, '');

/**
 * The members of a part's table; nothing if the part is a single function.
 * @param {string} part @param {string} text @returns {string[] | undefined}
 */
function membersOf(part, text) {
  if (part === 'field') {
    const lists = [...text.matchAll(/^local field = \{(.*)\}|^field\.(\w+)/gm)].map(
      ([, made, set = '']) => made?.match(/\w+(?= =)/g) ?? [set],
    );
    return [...fieldRows(text).map(({ name }) => name), ...lists.flat()];
  }
  const [, list] = /\nreturn \{([^}]*)\}\n$/.exec(text) ?? [];
  if (list !== undefined) {
    return [...list.matchAll(/(\w+) =/g)].map(([, name = '']) => name);
  }
  if (new RegExp(`^local function ${part}\\(`, 'm').test(text)) {
    return undefined;
  }
  const code = withoutComments(text);
  const [, made = ''] = new RegExp(`^local ${part} = \\{\n([^]*?)^\\}`, 'm').exec(code) ?? [];
  const set = [...code.matchAll(new RegExp(`^(?:function )?${part}\\.(\\w+)`, 'gm'))];
  return [...made.matchAll(/^  (\w+) = /gm), ...set].map(([, member = '']) => member);
}

/**
 * The stored names of a reservation's fields that are spelled out outside of the table.
 * @param {Map<string, string>} files
 */
function fieldProblems(files) {
  const rows = fieldRows(files.get(FIELDS) ?? '');
  const nameOf = new Map(rows.map(({ name, stored }) => [stored, name]));
  const stored = [...nameOf.keys()].join('|');
  // 'am' as a string, record.am, and { am = ... }. The prefix of extensions is a single letter, which as a
  // name may mean anything.
  const spelled = new RegExp(
    `'(${stored})'|\\.((?!x\\b)(?:${stored}))\\b|[{,] *((?!x\\b)(?:${stored})) =`,
    'g',
  );
  return [...files]
    .filter(([path]) => path !== FIELDS && !OTHER_RECORDS.test(path))
    .flatMap(([path, text]) =>
      text.split('\n').flatMap((line, index) =>
        [...line.replace(/^\s*--.*/, '').matchAll(spelled)].map(([, word, member, key]) => {
          const name = word ?? member ?? key ?? '';
          return `lua/${path}:${index + 1}: write field.${nameOf.get(name)} for '${name}' (lua/${FIELDS})`;
        }),
      ),
    );
}

/** Members that a file uses of a part that does not have them, and members that nobody uses. @param {Map<string, string>} files */
function memberProblems(files) {
  const given = new Map(
    [...files].flatMap(([path, text]) => {
      const part = partAt(path);
      return part === undefined ? [] : [/** @type {const} */ ([part, membersOf(part, text)])];
    }),
  );
  const used = new Set(CALLED_FROM_OUTSIDE);
  const missing = [...files].flatMap(([path, text]) =>
    [...importsOf(text), partAt(path) ?? ''].flatMap((part) => {
      const members = given.get(part);
      const uses = [...withoutComments(text).matchAll(new RegExp(`(?<![\\w.'])${part}\\.(\\w+)`, 'g'))].map(
        ([, member = '']) => member,
      );
      uses.forEach((member) => used.add(`${part}.${member}`));
      return members === undefined || partAt(path) === part
        ? []
        : uses
            .filter((member) => !members.includes(member))
            .map((member) => `lua/${path}: the part ${part} has no ${member}`);
    }),
  );
  // The table of fields uses its rows itself.
  const idle = [...given].flatMap(([part, members = []]) =>
    members
      .filter((member) => part !== 'field' && !used.has(`${part}.${member}`))
      .map((member) => `nobody uses ${part}.${member}`),
  );
  return [...missing, ...idle];
}

/**
 * A file as luacheck is to see it, line by line: the includes and the group of a grouped script as locals.
 * @param {string} text
 */
function checkable(text) {
  const parts = importsOf(text);
  return text
    .replace(/^#!.*/, '')
    .split('\n')
    .map((line) => {
      if (line.startsWith('-- @include ')) {
        return `local ${parts.join(', ')} = INCLUDED()`;
      }
      return line.startsWith('-- GROUP ') ? 'local group = INCLUDED()' : line;
    })
    .join('\n');
}

/** @param {Map<string, string>} files @returns {string[] | undefined} nothing where luacheck could not run */
function luacheckProblems(files) {
  const folder = mkdtempSync(join(ROOT, 'node_modules/.lint-lua-'));
  try {
    for (const [path, text] of files) {
      writeFileSync(join(folder, path.replaceAll('/', '__')), checkable(text));
    }
    const config = ['--config', join(ROOT, '.luacheckrc'), '--formatter', 'plain', '--codes'];
    const { status, stdout } = spawnSync('luacheck', [...config, folder], {
      encoding: 'utf8',
      maxBuffer: 1 << 26,
    });
    const found = [...stdout.matchAll(/^.*?(\w+)\.lua:(\d+):\d+(?:-\d+)?: (.*)$/gm)];
    return status === null || status > 2 || (status > 0 && found.length === 0)
      ? undefined
      : found.map(
          ([, name = '', line, message]) => `lua/${name.replaceAll('__', '/')}.lua:${line}: ${message}`,
        );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** @param {Map<string, string>} files */
function lengthProblems(files) {
  return [...files].flatMap(([path, text]) =>
    text
      .split('\n')
      .flatMap((line, index) =>
        line.length > COLUMNS ? [`lua/${path}:${index + 1}: ${line.length} columns, at most ${COLUMNS}`] : [],
      ),
  );
}

function main() {
  const files = new Map(luaPaths().map((path) => [path, readLua(path)]));
  const problems = [...fieldProblems(files), ...memberProblems(files), ...lengthProblems(files)];
  const isInstalled = spawnSync('luacheck', ['--version'], { stdio: 'ignore' }).status === 0;
  problems.push(
    ...(isInstalled ? (luacheckProblems(files) ?? ['luacheck could not check the files of lua']) : []),
  );
  process.stderr.write(problems.map((problem) => `${problem}\n`).join(''));
  if (!isInstalled) {
    process.stderr.write(
      'Lua was not checked: luacheck is not installed (on Debian: apt-get install lua-check)\n',
    );
  }
  return problems.length > 0 || (!isInstalled && process.env.LUACHECK === 'required') ? 1 : 0;
}

process.exitCode = main();
