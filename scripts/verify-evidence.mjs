// npm run verify-evidence -- <url or file> [--keys <url or file>] [--signer <public key>]: verifies an evidence envelope without its server.
// Exit codes: 0 verified; 1 refuted; 2 not verified; 3 whole, but nobody has said whose key signed it.
import { SetupError, explanationOf, importForCommand } from './install.mjs';

const NOT_VERIFIED = 2;

/**
 * @param {string[]} args
 * @returns {{ source: string, keys?: string, signer?: string }}
 */
function options([source = '', ...args]) {
  if (source === '' || source.startsWith('--')) {
    throw new SetupError(
      'name an envelope: npm run verify-evidence -- <url or file> [--keys <url or file>] [--signer <key>]',
    );
  }
  /** @type {Record<string, string>} */
  const given = {};
  for (let index = 0; index < args.length; index += 2) {
    const [option = '', value] = args.slice(index, index + 2);
    const name = /^--(keys|signer)$/.exec(option)?.[1];
    if (name === undefined || value === undefined) {
      throw new SetupError(
        `${JSON.stringify(option)} is not an option; use --keys <url or file> and --signer <key>`,
      );
    }
    given[name] = value;
  }
  return { source, ...given };
}

async function main() {
  const given = options(process.argv.slice(2));
  const { verifyEvidence } = /** @type {typeof import('../src/cli/verify-evidence.ts')} */ (
    await importForCommand('cli/verify-evidence.js')
  );
  return verifyEvidence({ ...given, print: (line) => process.stdout.write(`${line}\n`) });
}

main().then(
  (code) => {
    process.exitCode = code;
  },
  (error) => {
    process.stderr.write(`holdfast: ${explanationOf(error)}\n`);
    process.exitCode = NOT_VERIFIED;
  },
);
