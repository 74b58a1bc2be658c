// npm run evidence-keys -- <file> [--rotate] [--at <time>]: makes a set of keys that sign evidence, or adds a key that takes over.
// Exit codes: 0 written; 1 not written, for the reason that is printed.
import { SetupError, importForCommand, runCommand } from './install.mjs';

/** @param {string[]} args */
function options([file = '', ...args]) {
  const rotate = args[0] === '--rotate';
  const [option, at, ...more] = rotate ? args.slice(1) : args;
  const isRight =
    option === undefined || (rotate && option === '--at' && at !== undefined && more.length === 0);
  if (file === '' || file.startsWith('--') || !isRight) {
    throw new SetupError(
      'use npm run evidence-keys -- <file>, and with an existing file --rotate and --at <time>',
    );
  }
  return { file, rotate, at };
}

runCommand(async () => {
  const given = options(process.argv.slice(2));
  const { evidenceKeys } = /** @type {typeof import('../src/cli/evidence-keys.ts')} */ (
    await importForCommand('cli/evidence-keys.js')
  );
  try {
    process.stdout.write(`${evidenceKeys(given)}\n`);
  } catch (error) {
    throw new SetupError(error instanceof Error ? error.message : String(error));
  }
  return 0;
});
