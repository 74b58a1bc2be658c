// npm run verify-evidence -- <url or file> [--keys <url or file>] [--signer <public key>]: verifies an evidence envelope without its server.
// Exit codes: 0 verified; 1 refuted; 2 not verified; 3 whole, but nobody has said whose key signed it.
import { SetupError, importForCommand, optionsIn, runCommand, say } from './install.mjs';

const NOT_VERIFIED = 2;

runCommand(async () => {
  const [source = '', ...words] = process.argv.slice(2);
  if (source === '' || source.startsWith('--')) {
    throw new SetupError(
      'name an envelope: npm run verify-evidence -- <url or file> [--keys <url or file>] [--signer <key>]',
    );
  }
  const refusal = 'is not an option; use --keys <url or file> and --signer <key>';
  const given = optionsIn(words, ['keys', 'signer'], refusal);
  const { verifyEvidence } = /** @type {typeof import('../src/cli/verify-evidence.ts')} */ (
    await importForCommand('cli/verify-evidence.js')
  );
  return verifyEvidence({ source, ...given, print: say });
}, NOT_VERIFIED);
