// npm run verify [-- --url http://host:port] [--tenant id]: an fsck for the ledger of a running Holdfast.
// Exit code 0: sound; 1: drift; 2: could not be verified. The admin key comes from ADMIN_API_KEY, or from DATA_DIR.
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import {
  ROOT,
  SetupError,
  checkNode,
  ensureBuild,
  ensureDependencies,
  explanationOf,
  importBuilt,
} from './install.mjs';

const COULD_NOT = 2;

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
        `${JSON.stringify(option)} is no option of npm run verify; there are --url <base URL> and --tenant <id>`,
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
      `set ADMIN_API_KEY, or DATA_DIR to that of the running Holdfast: there is no ${file}`,
    );
  }
  return given || readFileSync(file, 'utf8').trim();
}

async function main() {
  const { url, tenant } = options(process.argv.slice(2));
  checkNode();
  // Where there are no sources, as in the container image, the build is what it is.
  if (existsSync(join(ROOT, 'src'))) {
    ensureDependencies();
    ensureBuild();
  }
  const { verifyLedger } = /** @type {typeof import('../src/cli/verify.ts')} */ (
    await importBuilt('cli/verify.js')
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
    process.exitCode = COULD_NOT;
  },
);
