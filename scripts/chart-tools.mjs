// Helm and kube-score for the tests of the chart, built from their modules with Go, which takes minutes. Without them those tests are
// skipped. `.ci/run` installs them; `npm test` only looks for them.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ROOT, runCommand } from './install.mjs';

/** @typedef {'helm' | 'kube-score'} Tool */

const MODULES = {
  helm: { path: 'helm.sh/helm/v4/cmd/helm', version: 'v4.3.1' },
  'kube-score': { path: 'github.com/zegl/kube-score/cmd/kube-score', version: 'v1.20.0' },
};
const CACHE = join(ROOT, 'node_modules', '.cache');
const INSTALL_TIMEOUT_MS = 20 * 60_000;

const ownFolder = (/** @type {Tool} */ name) => join(CACHE, `${name}-${MODULES[name].version}`);

/**
 * The path of the tool, if there is one: of the pinned version, or else on PATH.
 * @param {Tool} name
 */
export function chartTool(name) {
  const onPath = (process.env.PATH ?? '').split(delimiter).map((directory) => join(directory, name));
  return [join(ownFolder(name), name), ...onPath].find(existsSync);
}

/**
 * Whether the tool is there now.
 * @param {Tool} name
 */
function ensure(name) {
  if (chartTool(name) !== undefined) {
    return true;
  }
  const { path, version } = MODULES[name];
  process.stdout.write(`Installing ${name} ${version} with go ...\n`);
  const work = `${ownFolder(name)}.${process.pid}`;
  mkdirSync(work, { recursive: true });
  const { status, stderr, error } = spawnSync('go', ['install', '-trimpath', `${path}@${version}`], {
    encoding: 'utf8',
    timeout: INSTALL_TIMEOUT_MS,
    env: { ...process.env, GOBIN: work },
  });
  if (status === 0) {
    renameSync(work, ownFolder(name));
    return true;
  }
  rmSync(work, { recursive: true, force: true });
  const reason = error?.message ?? stderr.trim().split('\n').at(-1) ?? '';
  process.stdout.write(`${name} could not be installed, and its tests will be skipped: ${reason}\n`);
  return false;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  runCommand(() => {
    ensure('helm');
    ensure('kube-score');
    return Promise.resolve(0);
  });
}
