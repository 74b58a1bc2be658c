// npm run verify [-- --url http://host:port] [--tenant id] [--deployment id]: verifies the ledger of a running Holdfast.
// Exit codes: 0 no drift; 1 drift or unreadable reservations; 2 not verified. The admin key is ADMIN_API_KEY, or that in DATA_DIR; in that
// case the server must be the one of DATA_DIR.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { adminKeyFile, adminKeyOf, dataDir, given, localUrl } from './environment.mjs';
import { SetupError, importForCommand, optionsIn, runCommand, say } from './install.mjs';

const NOT_VERIFIED = 2;

/** @returns {{ adminKey: string, deployment?: string }} the key, and the deployment that DATA_DIR belongs to */
function identity() {
  const folder = dataDir();
  const adminKey = adminKeyOf(folder);
  if (given('ADMIN_API_KEY') !== '') {
    return { adminKey };
  }
  if (adminKey === '') {
    throw new SetupError(
      `set ADMIN_API_KEY, or set DATA_DIR to that of the running Holdfast: there is no ${adminKeyFile(folder)}`,
    );
  }
  const idFile = join(folder, 'deployment-id');
  if (!existsSync(idFile)) {
    throw new SetupError(
      `start Holdfast in ${folder} first: there is no ${idFile}, so another server would be asked`,
    );
  }
  return { adminKey, deployment: readFileSync(idFile, 'utf8').trim() };
}

runCommand(async () => {
  const { url, tenant, deployment } = optionsIn(
    process.argv.slice(2),
    ['url', 'tenant', 'deployment'],
    'is not an option of npm run verify; use --url <base URL>, --tenant <id> and --deployment <id>',
  );
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
    print: say,
  });
}, NOT_VERIFIED);
