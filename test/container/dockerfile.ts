import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';

/** What an engine produces from the last stage of a Dockerfile. */
export interface Image {
  /** The root of the image's file system. */
  readonly root: string;
  readonly workdir: string;
  readonly user: string;
  readonly env: Readonly<Record<string, string>>;
  readonly command: readonly string[];
  readonly healthcheck: readonly string[];
  readonly exposed: readonly string[];
  readonly from: string;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

interface Instruction {
  readonly name: string;
  readonly rest: string;
}

/**
 * Does what an engine would do with a Dockerfile: COPY copies, RUN runs, each stage in a separate folder. An
 * unsupported instruction is an error, so that the file cannot contain anything that the tests ignore. The
 * base images are what this machine has.
 */
export class DockerfileBuild {
  private readonly stages = new Map<string, Mutable<Image>>();
  private readonly ignored: readonly string[];

  /** `context` is the folder to build from, `target` an empty folder outside it. */
  constructor(
    private readonly context: string,
    private readonly target: string,
  ) {
    const patterns = existsSync(join(context, '.dockerignore'))
      ? linesOf(readFileSync(join(context, '.dockerignore'), 'utf8'))
      : [];
    const unknown = patterns.find((pattern) => /[*?!]/.test(pattern));
    if (unknown !== undefined) {
      throw new Error(`.dockerignore: tests do not support ${unknown}`);
    }
    this.ignored = patterns.map((pattern) => pattern.replace(/\/$/, ''));
  }

  build(): Image {
    let stage: Mutable<Image> | undefined;
    for (const { name, rest } of instructionsOf(readFileSync(join(this.context, 'Dockerfile'), 'utf8'))) {
      if (name === 'FROM') {
        stage = this.begin(rest);
      } else if (stage === undefined) {
        throw new Error(`Dockerfile: ${name} before FROM`);
      } else {
        this.apply(stage, name, rest);
      }
    }
    if (stage === undefined) {
      throw new Error('Dockerfile: no FROM');
    }
    return stage;
  }

  private begin(rest: string): Mutable<Image> {
    const [, from = '', name = 'the last stage'] = /^(\S+)(?: AS (\S+))?$/.exec(rest) ?? [];
    const root = join(this.target, `stage-${this.stages.size}`);
    mkdirSync(root);
    const stage: Mutable<Image> = {
      root,
      workdir: '/',
      user: 'root',
      env: {},
      command: [],
      healthcheck: [],
      exposed: [],
      from,
    };
    this.stages.set(name, stage);
    return stage;
  }

  private apply(stage: Mutable<Image>, name: string, rest: string): void {
    switch (name) {
      case 'WORKDIR':
        stage.workdir = join(stage.workdir, rest);
        mkdirSync(join(stage.root, stage.workdir), { recursive: true });
        return;
      case 'ENV':
        stage.env = {
          ...stage.env,
          ...Object.fromEntries(rest.split(' ').map((pair) => pair.split('=') as [string, string])),
        };
        return;
      case 'COPY':
        this.copy(stage, rest.split(/\s+/));
        return;
      case 'RUN':
        this.run(stage, rest);
        return;
      case 'USER':
        stage.user = rest;
        return;
      case 'EXPOSE':
        stage.exposed = [...stage.exposed, rest];
        return;
      case 'HEALTHCHECK':
        stage.healthcheck = JSON.parse(rest.slice(rest.indexOf('CMD ') + 'CMD '.length)) as string[];
        return;
      case 'CMD':
        // The shell form would fail to parse here, and would send SIGTERM to a shell.
        stage.command = JSON.parse(rest) as string[];
        return;
      default:
        throw new Error(`Dockerfile: tests do not support ${name}`);
    }
  }

  private copy(stage: Image, words: string[]): void {
    const other = /^--from=(.+)$/.exec(words[0] as string)?.[1];
    const sources = words.slice(other === undefined ? 0 : 1, -1);
    const into = join(stage.root, stage.workdir, words.at(-1) as string);
    const from = other === undefined ? this.context : this.stages.get(other)?.root;
    if (from === undefined) {
      throw new Error(`Dockerfile: there is no stage ${other}`);
    }
    for (const source of sources) {
      if (other === undefined && this.ignored.includes(source.split('/')[0] as string)) {
        throw new Error(`Dockerfile: .dockerignore keeps ${source} from the build`);
      }
      const file = /\.[a-z]+$|^\.\w+$/.test(source) && words.at(-1)?.endsWith('/') === true;
      const target = file ? join(into, source.split('/').at(-1) as string) : into;
      if (other !== undefined && !existsSync(target)) {
        // Nothing reads an earlier stage after the next one has copied from it, and copying all packages
        // takes time. So move them.
        renameSync(join(from, source), target);
      } else {
        cpSync(join(from, source), target, { recursive: true });
      }
    }
  }

  /**
   * Runs the command as written, in the stage's folder and without a network. `npm ci` compares the lock file
   * with the manifest, and then takes the packages that are installed here, which are those of the lock file.
   */
  private run(stage: Image, command: string): void {
    const bin = join(this.target, 'bin');
    mkdirSync(bin, { recursive: true });
    writeFileSync(join(bin, 'npm'), npmWithoutNetwork(join(this.context, 'node_modules')));
    chmodSync(join(bin, 'npm'), 0o755);
    const { status, stdout, stderr } = spawnSync('sh', ['-c', command], {
      cwd: join(stage.root, stage.workdir),
      encoding: 'utf8',
      env: { PATH: `${bin}${delimiter}${process.env['PATH'] ?? ''}`, HOME: this.target, ...stage.env },
    });
    if (status !== 0) {
      throw new Error(`Dockerfile: RUN ${command} failed: ${stdout}${stderr}`);
    }
  }
}

/**
 * An npm that links files where possible, because copying 40,000 takes longer than the rest of the build.
 * Files that npm itself writes to are copied.
 */
function npmWithoutNetwork(installed: string): string {
  const real = spawnSync('sh', ['-c', 'command -v npm'], { encoding: 'utf8' }).stdout.trim();
  return `#!/bin/sh
set -e
if [ "$1" = ci ]; then
  "${real}" "$@" --offline --dry-run
  cp -RPl "${installed}" node_modules 2> /dev/null || { rm -rf node_modules && cp -R "${installed}" node_modules; }
  rm -rf node_modules/.cache node_modules/.package-lock.json
  cp "${installed}/.package-lock.json" node_modules/
else
  "${real}" "$@" --offline
fi
`;
}

function linesOf(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
}

function instructionsOf(text: string): Instruction[] {
  return linesOf(text.replace(/\\\n\s*/g, '')).map((line) => ({
    name: line.slice(0, line.indexOf(' ')),
    rest: line.slice(line.indexOf(' ') + 1).trim(),
  }));
}

/** Parent folders in which Node.js would find packages that the image does not have. */
export function packagesAbove(folder: string): string[] {
  const parent = dirname(folder);
  const here = join(parent, 'node_modules');
  return [...(existsSync(here) ? [here] : []), ...(parent === folder ? [] : packagesAbove(parent))];
}
