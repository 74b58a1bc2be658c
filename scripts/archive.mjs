// npm run archive -- verify: reads every file of the archive, and names what is missing, cut, changed or doubled.
// npm run archive -- rebuild [day...]: makes the manifests of published days again from what the files hold, and says what it changed.
// npm run archive -- query "<sql>": runs a SELECT on the published days of the archive and prints CSV, row by row.
// The folder is ARCHIVE_DIR, or that in DATA_DIR. Exit codes: 0 done; 1 refused or not complete; 2 not run.
import { existsSync } from 'node:fs';
import { archiveDir } from './environment.mjs';
import { SetupError, importForCommand, runCommand, say } from './install.mjs';

const [INCOMPLETE, NOT_RUN] = [1, 2];

/** @returns {string} the folder of the archive */
function archiveFolder() {
  const folder = archiveDir();
  if (!existsSync(folder)) {
    throw new SetupError(`there is no archive in ${folder}; set ARCHIVE_DIR to that of the running Holdfast`);
  }
  return folder;
}

const warn = (/** @type {string} */ text) => process.stderr.write(`${text}\n`);
process.stdout.on('error', (/** @type {NodeJS.ErrnoException} */ error) => {
  if (error.code !== 'EPIPE') {
    throw error;
  }
  // The reader of a pipe, such as head, has enough, and does not know what it has not read.
  process.exit(INCOMPLETE);
});

/**
 * Each returns whether all is well.
 * @type {Record<string, (words: string[]) => Promise<boolean>>}
 */
const COMMANDS = {
  async verify(words) {
    if (words.length > 0) {
      throw new SetupError('npm run archive -- verify takes no further words');
    }
    const { verifyArchive } = /** @type {typeof import('../src/cli/archive-verify.ts')} */ (
      await importForCommand('cli/archive-verify.js')
    );
    return verifyArchive({ folder: archiveFolder(), print: say, warn });
  },

  async rebuild(days) {
    const wrong = days.find((day) => !/^\d{4}-\d{2}-\d{2}$/.test(day));
    if (wrong !== undefined) {
      throw new SetupError(`${JSON.stringify(wrong)} is no day such as 2026-01-31`);
    }
    const { rebuildArchive } = /** @type {typeof import('../src/cli/archive-rebuild.ts')} */ (
      await importForCommand('cli/archive-rebuild.js')
    );
    return rebuildArchive({ folder: archiveFolder(), days, print: say, warn });
  },

  async query([sql, ...more]) {
    if (sql === undefined || more.length > 0) {
      throw new SetupError('give one SELECT in quotation marks: npm run archive -- query "SELECT …"');
    }
    const { queryArchive } = /** @type {typeof import('../src/cli/archive-query.ts')} */ (
      await importForCommand('cli/archive-query.js')
    );
    return queryArchive({ folder: archiveFolder(), sql, print: say, warn });
  },
};

runCommand(async () => {
  const [name = '', ...words] = process.argv.slice(2);
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (command === undefined) {
    throw new SetupError(
      `give one of ${Object.keys(COMMANDS).join(', ')}, as in npm run archive -- query "SELECT …"`,
    );
  }
  return (await command(words)) ? 0 : INCOMPLETE;
}, NOT_RUN);
