// npm run release -- <folder> [--rehearse]: writes what a release consists of into a new folder: the context of the image, the package
// of the chart, a CycloneDX bill of materials of what ships, and their checksums. Refuses versions that disagree, and, without
// --rehearse, a version that the changelog does not call released, and one that needs more processor time than the last one.
// Exit codes: 0 written; 1 refused, for the reason that is printed.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ROOT, SetupError, ensureBuild, ensureRedis, outputOf, readJson, runCommand } from './install.mjs';

const CHART = 'deploy/helm/holdfast';

/**
 * What is wrong with the versions of a checkout, each as a sentence.
 * @param {string} root
 */
export function disagreements(root) {
  const text = (/** @type {string} */ file) => readFileSync(join(root, file), 'utf8');
  const versionOf = (/** @type {string} */ file) =>
    /** @type {{ version: string }} */ (readJson(join(root, file))).version;
  const version = versionOf('package.json');
  const found = {
    'package-lock.json': versionOf('package-lock.json'),
    'integrations/ai-sdk/package.json': versionOf('integrations/ai-sdk/package.json'),
    'integrations/litellm/pyproject.toml': /^version = "(.+)"$/m.exec(
      text('integrations/litellm/pyproject.toml'),
    )?.[1],
    [`version in ${CHART}/Chart.yaml`]: /^version: (.+)$/m.exec(text(`${CHART}/Chart.yaml`))?.[1],
    [`appVersion in ${CHART}/Chart.yaml`]: /^appVersion: (.+)$/m.exec(text(`${CHART}/Chart.yaml`))?.[1],
  };
  const others = Object.entries(found)
    .filter(([, other]) => other !== version)
    .map(([file, other]) => `${file} has ${other}, and package.json ${version}`);
  const [, newest = '', note = ''] = /^## (\S+)(.*)$/m.exec(text('CHANGELOG.md')) ?? [];
  const changelog =
    newest === version ? [] : [`the newest version of CHANGELOG.md is ${newest}, and not ${version}`];
  return { version, problems: [...others, ...changelog], isReleased: !note.includes('not released') };
}

/** What the Dockerfile copies from outside, and what building needs beside. */
function contextPaths() {
  const copied = readFileSync(join(ROOT, 'Dockerfile'), 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('COPY ') && !line.includes('--from='))
    .flatMap((line) => line.split(' ').slice(1, -1));
  return ['Dockerfile', '.dockerignore', 'LICENSE', ...copied];
}

/**
 * Only files under version control, with the contents of links.
 * @param {string} file
 * @param {string} base
 * @param {string[]} paths
 */
function pack(file, base, paths) {
  const folder = join(ROOT, base);
  const input = outputOf('git', ['ls-files', '--', ...paths], { cwd: folder });
  outputOf('tar', ['-czhf', file, '-T', '-'], { cwd: folder, input });
}

/** The chart is packed below a folder of its name, as Helm expects. */
const chartParent = CHART.split('/').slice(0, -1).join('/');

function billOfMaterials() {
  const npmCli = process.env.npm_execpath;
  const [command, first] = npmCli?.endsWith('.js') ? [process.execPath, [npmCli]] : ['npm', []];
  return outputOf(command, [
    ...first,
    'sbom',
    '--sbom-format=cyclonedx',
    '--omit=dev',
    '--package-lock-only',
  ]);
}

/** @param {string[]} args */
async function release(args) {
  const rehearses = args.includes('--rehearse');
  const [given, ...more] = args.filter((arg) => arg !== '--rehearse');
  if (given === undefined || given.startsWith('-') || more.length > 0) {
    throw new SetupError('name one folder: npm run release -- <folder>');
  }
  const { version, problems, isReleased } = disagreements(ROOT);
  const unreleased =
    isReleased || rehearses ? [] : [`CHANGELOG.md calls ${version} not released; --rehearse makes it anyway`];
  if (problems.length + unreleased.length > 0) {
    throw new SetupError([...problems, ...unreleased].join('; '));
  }
  const folder = resolve(given);
  if (existsSync(folder) && readdirSync(folder).length > 0) {
    throw new SetupError(`${folder} is not empty`);
  }
  if (!rehearses) {
    ensureRedis({});
    ensureBuild();
    const { slowerThanLastRelease } = await import('../bench/against.mjs');
    const slower = await slowerThanLastRelease();
    if (slower.length > 0) {
      throw new SetupError(slower.join('; '));
    }
  }
  mkdirSync(folder, { recursive: true });
  const inFolder = (/** @type {string} */ name) => join(folder, `holdfast-${version}${name}`);
  pack(inFolder('-image.tar.gz'), '.', contextPaths());
  pack(inFolder('.tgz'), chartParent, ['holdfast']);
  writeFileSync(inFolder('.cdx.json'), billOfMaterials());
  const sums = readdirSync(folder).map((name) => {
    const hash = createHash('sha256')
      .update(readFileSync(join(folder, name)))
      .digest('hex');
    return `${hash}  ${name}\n`;
  });
  writeFileSync(join(folder, 'SHA256SUMS'), sums.join(''));
  process.stdout.write(`${version}: ${readdirSync(folder).join(', ')} in ${folder}\n`);
  return 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  runCommand(() => release(process.argv.slice(2)));
}
