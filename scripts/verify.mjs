// npm run verify [-- --url http://host:port] [--tenant id] [--deployment id]: verifies the ledger of a running Holdfast.
// Exit codes: 0 no drift; 1 drift or unreadable reservations; 2 not verified. The admin key is ADMIN_API_KEY, or that in DATA_DIR; in that
// case the server must be the one of DATA_DIR.
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { SetupError, explanationOf, importForCommand } from './install.mjs';
import { localUrl } from './local-url.mjs';

const NOT_VERIFIED = 2;

/**
 * @param {string[]} args
 * @returns {{ url?: string, tenant?: string, deployment?: string }}
 */
function options(args) {
  /** @type {Record<string, string>} */
  const given = {};
  for (let index = 0; index < args.length; index += 2) {
    const [option = '', value] = args.slice(index, index + 2);
    const name = /^--(url|tenant|deployment)$/.exec(option)?.[1];
    if (name === undefined || value === undefined) {
      throw new SetupError(
        `${JSON.stringify(option)} is not an option of npm run verify; use --url <base URL>, --tenant <id> and --deployment <id>`,
      );
    }
    given[name] = value;
  }
  return given;
}

/** @returns {{ adminKey: string, deployment?: string }} the key, and the deployment that DATA_DIR belongs to */
function identity() {
  const given = (process.env.ADMIN_API_KEY ?? '').trim();
  if (given !== '') {
    return { adminKey: given };
  }
  const dataDir = resolve((process.env.DATA_DIR ?? '').trim() || './.data');
  const [keyFile, idFile] = [join(dataDir, 'admin-api-key'), join(dataDir, 'deployment-id')];
  if (!existsSync(keyFile)) {
    throw new SetupError(
      `set ADMIN_API_KEY, or set DATA_DIR to that of the running Holdfast: there is no ${keyFile}`,
    );
  }
  if (!existsSync(idFile)) {
    throw new SetupError(
      `start Holdfast in ${dataDir} first: there is no ${idFile}, so another server would be asked`,
    );
  }
  const read = (/** @type {string} */ file) => readFileSync(file, 'utf8').trim();
  return { adminKey: read(keyFile), deployment: read(idFile) };
}

async function main() {
  const { url, tenant, deployment } = options(process.argv.slice(2));
  const own = identity();
  const { verifyLedger } = /** @type {typeof import('../src/cli/verify.ts')} */ (
    await importForCommand('cli/verify.js')
  );
  const baseUrl = (url ?? localUrl()).replace(/\/+$/, '');
  return verifyLedger({
    baseUrl,
    adminKey: own.adminKey,
    tenant,
    deployment: deployment ?? own.deployment,
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
