// Shared by the commands that run one test file with other settings than `npm test`.
import { spawn } from 'node:child_process';
import { ROOT, SetupError, checkNode, ensureDependencies, ensureRedis, runCommand } from './install.mjs';
import { seedFrom } from './seed.mjs';
import { endOf, openRun } from './test-run.mjs';

/**
 * Runs a test file as a command that takes `--seed=<number>` and one more option.
 * @param {{
 *   readonly command: string,
 *   readonly file: string,
 *   readonly seedVariable: string,
 *   readonly option: RegExp,
 *   readonly settings: (option: string | undefined) => Readonly<Record<string, string>>,
 * }} about  settings: environment variables for the option, as it was given
 */
export function runTestFile({ command, file, seedVariable, option, settings }) {
  runCommand(async () => {
    checkNode();
    ensureDependencies();
    ensureRedis({});
    const words = process.argv.slice(2);
    const unknown = words.find((word) => !option.test(word) && !/^--seed=\d+$/.test(word));
    if (unknown !== undefined) {
      throw new SetupError(`${unknown} is no option of ${command}`);
    }
    const given = words.find((word) => word.startsWith('--seed='))?.slice('--seed='.length);
    const seed = given ?? String(seedFrom(seedVariable, command, () => undefined));
    const chosen = words.find((word) => option.test(word));
    const run = openRun();
    try {
      const child = spawn(process.execPath, ['node_modules/jest/bin/jest.js', file], {
        cwd: ROOT,
        stdio: 'inherit',
        env: { ...process.env, ...settings(chosen), [seedVariable]: seed },
      });
      const { code } = await endOf(child);
      if (code !== 0) {
        process.stdout.write(
          `to repeat it: ${[command, '--', chosen, `--seed=${seed}`].filter(Boolean).join(' ')}\n`,
        );
      }
      return code ?? 1;
    } finally {
      await run.close({ inOrder: true });
    }
  });
}
