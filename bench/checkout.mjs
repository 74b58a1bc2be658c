// Other commits of this repository, built in folders of their own that stay between runs.
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { join } from 'node:path';
import { ROOT, SetupError, outputOf, readJson } from '../scripts/install.mjs';
import { say } from './report.mjs';

const BUILT = join(ROOT, 'node_modules', '.cache', 'bench');

/**
 * The newest version before this one that the changelog calls released, with its commit.
 * @param {string} changelog
 * @param {string} own version
 */
export function lastRelease(changelog, own) {
  const released = [...changelog.matchAll(/^## (\S+) \(\d{4}-\d\d-\d\d, ([0-9a-f]{7,40})\)$/gm)];
  const [, version, commit] = released.find(([, one]) => one !== own) ?? [];
  if (version === undefined || commit === undefined) {
    throw new SetupError(
      'CHANGELOG.md names no commit of a release, as in `## 0.7.0 (2026-11-26, f171d73f)`',
    );
  }
  return { version, commit };
}

/** The last release before the version of this checkout. */
export function ownLastRelease() {
  const { version } = /** @type {{ version: string }} */ (readJson(join(ROOT, 'package.json')));
  return lastRelease(readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8'), version);
}

/**
 * The folder of a built commit.
 * @param {string} ref such as a branch or a commit
 */
export function builtCheckout(ref) {
  const words = ['rev-parse', '--verify', '--quiet', '--end-of-options', `${ref}^{commit}`];
  const found = spawnSync('git', words, { cwd: ROOT, encoding: 'utf8' });
  const commit = found.stdout.trim();
  if (found.status !== 0) {
    throw new SetupError(`${ref} is not in this clone; if the clone is shallow, \`git fetch --unshallow\``);
  }
  const folder = join(BUILT, commit);
  if (!existsSync(folder)) {
    build(commit, folder);
  }
  return folder;
}

/**
 * In a folder of another name first, so that an interrupted build does not count.
 * @param {string} commit
 * @param {string} folder
 */
function build(commit, folder) {
  say(`building ${commit.slice(0, 8)}`);
  mkdirSync(BUILT, { recursive: true });
  const partial = mkdtempSync(join(BUILT, 'partial-'));
  try {
    outputOf('tar', ['-x'], { cwd: partial, input: outputOf('git', ['archive', commit]) });
    if (dependenciesOf(partial) === dependenciesOf(ROOT)) {
      linkDependencies(partial);
    } else {
      outputOf('npm', ['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'], {
        cwd: partial,
      });
    }
    outputOf('npm', ['run', '--silent', 'build'], { cwd: partial });
    renameSync(partial, folder);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
}

/** @param {string} root */
function dependenciesOf(root) {
  const { packages } = /** @type {{ packages: object }} */ (readJson(join(root, 'package-lock.json')));
  // The first one is the package itself, whose version differs from release to release.
  return JSON.stringify({ ...packages, '': undefined });
}

/** @param {string} folder */
function linkDependencies(folder) {
  const [from, to] = [join(ROOT, 'node_modules'), join(folder, 'node_modules')];
  mkdirSync(to);
  const names = readdirSync(from).filter((name) => name !== '.cache');
  const linked = spawnSync('cp', ['-al', ...names, to], { cwd: from });
  if (linked.status !== 0) {
    // This cp or this file system has no hard links.
    for (const name of names) {
      cpSync(join(from, name), join(to, name), { recursive: true, verbatimSymlinks: true });
    }
  }
}
