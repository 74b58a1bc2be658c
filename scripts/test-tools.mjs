// node test-tools.mjs: installs everything that the tests and lint use, where this machine allows it. The tests of a tool that is missing
// are skipped. `.ci/run` installs all of them; `npm test` leaves out those that are built with Go, which takes minutes.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  ROOT,
  checkNode,
  ensureDependencies,
  ensureRedis,
  findOnPath,
  runCommand,
  runQuietly,
  say,
} from './install.mjs';

const CACHE = join(ROOT, 'node_modules', '.cache');
const PROMETHEUS = join(CACHE, 'prometheus');
/** The first one has no windows at all, and needs two thirds of the processor time. */
const HEADLESS = 'chromium-headless-shell';
const BROWSERS = [HEADLESS, 'chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** @typedef {'helm' | 'kube-score'} ChartTool */
const GO_MODULES = {
  helm: { path: 'helm.sh/helm/v4/cmd/helm', version: 'v4.3.1' },
  'kube-score': { path: 'github.com/zegl/kube-score/cmd/kube-score', version: 'v1.20.0' },
};
const GO_TIMEOUT_MS = 20 * 60_000;

const mayInstall = () => process.getuid?.() === 0 && findOnPath('apt-get') !== undefined;

/** @param {string} name of a package */
const install = (name) => runQuietly('apt-get', ['install', '-y', '-q', '--no-install-recommends', name]);

const update = () => runQuietly('apt-get', ['update', '-q']);

/** The path of the browser for the tests of the console, if there is one. */
export const chromiumBinary = () => BROWSERS.map(findOnPath).find(Boolean);

/**
 * The path of Prometheus or its promtool for the tests of the dashboards and alert rules, if there is one.
 * @param {'prometheus' | 'promtool'} name
 */
export const prometheusBinary = (name = 'prometheus') =>
  findOnPath(name) ?? [join(PROMETHEUS, name)].find(existsSync);

const ownFolder = (/** @type {ChartTool} */ name) => join(CACHE, `${name}-${GO_MODULES[name].version}`);

/**
 * The path of the tool for the tests of the chart, if there is one: of the pinned version, or else on PATH.
 * @param {ChartTool} name
 */
export const chartTool = (name) => [join(ownFolder(name), name)].find(existsSync) ?? findOnPath(name);

/** Nothing but `npm run lint` needs it, which says so where it is missing. */
function ensureLuacheck() {
  if (!findOnPath('luacheck') && mayInstall()) {
    say('Installing luacheck with apt-get ...');
    update();
    install('lua-check');
  }
}

export function ensureChromium() {
  if (findOnPath(HEADLESS) || !mayInstall()) {
    return;
  }
  const found = chromiumBinary();
  if (found === undefined) {
    update();
  }
  const hasHeadless = spawnSync('apt-cache', ['show', HEADLESS], { stdio: 'ignore' }).status === 0;
  if (found !== undefined && !hasHeadless) {
    return;
  }
  say('Installing Chromium with apt-get ...');
  for (const name of hasHeadless ? [HEADLESS, 'chromium'] : ['chromium']) {
    install(name);
    if (chromiumBinary() !== undefined) {
      return;
    }
  }
}

/** Takes Prometheus out of Debian's package. It is not installed, because the package starts a service. */
export function ensurePrometheus() {
  const isThere = prometheusBinary() !== undefined && prometheusBinary('promtool') !== undefined;
  if (isThere || !findOnPath('apt-get') || !findOnPath('dpkg-deb')) {
    return;
  }
  say('Downloading Prometheus with apt-get ...');
  const work = mkdtempSync(join(tmpdir(), 'holdfast-prometheus-'));
  try {
    const download = () => {
      runQuietly('apt-get', ['download', '-q', 'prometheus'], work);
      return readdirSync(work).find((name) => name.endsWith('.deb'));
    };
    let file = download();
    if (file === undefined && mayInstall()) {
      update();
      file = download();
    }
    if (file !== undefined) {
      runQuietly('dpkg-deb', ['-x', file, '.'], work);
      mkdirSync(PROMETHEUS, { recursive: true });
      for (const name of ['prometheus', 'promtool']) {
        cpSync(join(work, 'usr', 'bin', name), join(PROMETHEUS, name));
      }
    }
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/**
 * Builds it from its module.
 * @param {ChartTool} name
 */
function ensureChartTool(name) {
  if (chartTool(name) !== undefined) {
    return;
  }
  const { path, version } = GO_MODULES[name];
  say(`Installing ${name} ${version} with go ...`);
  const work = `${ownFolder(name)}.${process.pid}`;
  mkdirSync(work, { recursive: true });
  const { status, stderr, error } = spawnSync('go', ['install', '-trimpath', `${path}@${version}`], {
    encoding: 'utf8',
    timeout: GO_TIMEOUT_MS,
    env: { ...process.env, GOBIN: work },
  });
  if (status === 0) {
    renameSync(work, ownFolder(name));
    return;
  }
  rmSync(work, { recursive: true, force: true });
  const reason = error?.message ?? stderr.trim().split('\n').at(-1) ?? '';
  say(`${name} could not be installed, and its tests will be skipped: ${reason}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  runCommand(() => {
    checkNode();
    ensureDependencies();
    // The tests start their own Redis servers, so an address in the environment does not replace the binary here.
    ensureRedis({});
    ensureLuacheck();
    ensureChromium();
    ensurePrometheus();
    ensureChartTool('helm');
    ensureChartTool('kube-score');
    return Promise.resolve(0);
  });
}
