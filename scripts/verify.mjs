// npm run verify [-- --url http://host:port] [--tenant id]: verifies the ledger of a running Holdfast.
// Exit codes: 0 no drift; 1 drift or unreadable reservations; 2 not verified. The admin key is ADMIN_API_KEY, or that in DATA_DIR.
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { SetupError, explanationOf, importForCommand } from './install.mjs';

const NOT_VERIFIED = 2;

/**
 * @param {string[]} args
 * @returns {{ url?: string, tenant?: string }}
 */
function options(args) {
  /** @type {Record<string, string>} */
  const given = {};
  for (let index = 0; index < args.length; index += 2) {
    const [option = '', value] = args.slice(index, index + 2);
    const name = /^--(url|tenant)$/.exec(option)?.[1];
    if (name === undefined || value === undefined) {
      throw new SetupError(
        `${JSON.stringify(option)} is not an option of npm run verify; use --url <base URL> and --tenant <id>`,
      );
    }
    given[name] = value;
  }
  return given;
}

function adminKey() {
  const given = (process.env.ADMIN_API_KEY ?? '').trim();
  const file = join(resolve((process.env.DATA_DIR ?? '').trim() || './.data'), 'admin-api-key');
  if (given === '' && !existsSync(file)) {
    throw new SetupError(
      `set ADMIN_API_KEY, or set DATA_DIR to that of the running Holdfast: there is no ${file}`,
    );
  }
  return given || readFileSync(file, 'utf8').trim();
}

async function main() {
  const { url, tenant } = options(process.argv.slice(2));
  const { verifyLedger } = /** @type {typeof import('../src/cli/verify.ts')} */ (
    await importForCommand('cli/verify.js')
  );
  const baseUrl = (url ?? `http://127.0.0.1:${(process.env.PORT ?? '').trim() || 7878}`).replace(/\/+$/, '');
  return verifyLedger({
    baseUrl,
    adminKey: adminKey(),
    tenant,
    print: (line) => process.stdout.write(`${line}\n`),
  });
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
