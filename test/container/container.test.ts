import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { CONSTANTS } from '../../src/config/constants.js';
import { CONFIG_VARIABLES } from '../../src/config/variables.js';
import { QueryProcess } from '../../src/usage/query-process.js';
import { eventually } from '../support/eventually.js';
import {
  ADMIN_API_KEY,
  expectRefusal,
  expectStatus,
  HoldfastClient,
  WEBHOOK_SECRET_ENCRYPTION_KEY,
} from '../support/holdfast.js';
import { findFreePort, startRedis, stopAllRedis, type RedisServer } from '../support/redis-server.js';
import { patience } from '../support/time-limits.js';
import { bytes, readCompose, seconds, type Compose } from './compose.js';
import { DockerfileBuild, packagesAbove, type Image } from './dockerfile.js';

/*
 * There is no container engine where these tests run, so they interpret the Dockerfile and docker-compose.yml
 * themselves.
 */

jest.setTimeout(120_000);

const ROOT = new URL('../../', import.meta.url);
const COMPOSE = new URL('docker-compose.yml', ROOT);
const KEYS = { ADMIN_API_KEY, WEBHOOK_SECRET_ENCRYPTION_KEY, REDIS_PASSWORD: 'a-password-of-redis' };
/** The user `node` of the image. Only root can switch to another user. */
const IDENTITY = process.getuid?.() === 0 ? { uid: 1000, gid: 1000 } : {};
/** Where the volume of the archive is mounted. */
const archive = (): string => join(image.root, compose.services.holdfast.environment?.['ARCHIVE_DIR'] ?? '');

/** The effect of `read_only`: every write to the file system fails, but for that to the volume. */
const readOnly = (): string[] => [
  process.allowedNodeEnvironmentFlags.has('--permission') ? '--permission' : '--experimental-permission',
  '--allow-fs-read=*',
  `--allow-fs-write=${archive()}`,
  '--allow-worker',
  '--allow-child-process',
  '--no-warnings',
];

interface Container {
  readonly child: ChildProcess;
  readonly output: { text: string };
  readonly ended: Promise<[number | null, string | null]>;
  readonly client: HoldfastClient;
  readonly port: string;
}

let target: string;
let image: Image;
let compose: Compose;
let redis: RedisServer;
const containers: Container[] = [];

beforeAll(async () => {
  target = mkdtempSync(join(tmpdir(), 'image-'));
  // The folder for temporary files belongs to the run. Another user needs the path to the image in it, and
  // nothing else.
  [tmpdir(), target].forEach((folder) => chmodSync(folder, 0o711));
  expectWayFor(IDENTITY, target);
  image = new DockerfileBuild(fileURLToPath(ROOT), target).build();
  compose = readCompose(COMPOSE, KEYS);
  const [server, ...args] = compose.services.redis.command ?? [];
  expect(server).toBe('redis-server');
  redis = await startRedis({ args });
}, 240_000);

afterEach(async () => {
  for (const { child, ended } of containers.splice(0)) {
    child.kill('SIGKILL');
    await ended;
  }
});

afterAll(async () => {
  await stopAllRedis();
  rmSync(target, { recursive: true, force: true });
});

/**
 * Fails with a clear message if a parent folder is closed to the image's user. Otherwise the service would
 * not find its own files.
 */
function expectWayFor(identity: typeof IDENTITY, folder: string): void {
  const way = spawnSync('test', ['-x', folder], { cwd: '/', encoding: 'utf8', ...identity });
  expect({ folder, openToTheImagesUser: way.status === 0 }).toEqual({ folder, openToTheImagesUser: true });
}

/**
 * The environment of the compose file and nothing else, except for addresses that are fixed inside a
 * container but not here.
 */
function environment(port: string): Record<string, string> {
  const { REDIS_URL = '', ...others } = compose.services.holdfast.environment ?? {};
  expect(REDIS_URL).toBe('redis://redis:6379');
  return {
    PATH: process.env['PATH'] ?? '',
    TMPDIR: tmpdir(),
    ...image.env,
    ...others,
    REDIS_URL: redis.url,
    ARCHIVE_DIR: archive(),
    PORT: port,
  };
}

/** The first word of CMD and HEALTHCHECK is a program on PATH; `node` is the one that runs the tests. */
const program = (words: readonly string[]): [string, string[]] => {
  expect(words[0]).toBe('node');
  return [process.execPath, words.slice(1)];
};

async function start(): Promise<Container> {
  const port = String(await findFreePort());
  const [file, args] = program(image.command);
  const child = spawn(file, [...(compose.services.holdfast.read_only === true ? readOnly() : []), ...args], {
    cwd: join(image.root, image.workdir),
    env: environment(port),
    stdio: ['ignore', 'pipe', 'pipe'],
    ...IDENTITY,
  });
  const output = { text: '' };
  child.stdout.on('data', (chunk: Buffer) => (output.text += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output.text += chunk.toString()));
  const ended = once(child, 'exit') as Promise<[number | null, string | null]>;
  const container = { child, output, ended, port, client: new HoldfastClient(`http://127.0.0.1:${port}`) };
  containers.push(container);
  return container;
}

function isHealthy({ port }: Container): boolean {
  const [file, args] = program(image.healthcheck);
  return (
    spawnSync(file, args, { cwd: join(image.root, image.workdir), env: environment(port), ...IDENTITY })
      .status === 0
  );
}

async function startHealthy(): Promise<Container> {
  const container = await start();
  const isOver = (): boolean => container.child.exitCode !== null;
  // Each health check of the image starts a process, so wait until there is something to find.
  await eventually(
    'the container is ready',
    async () => isOver() || (await fetch(`${container.client.url}/health/ready`)).ok,
    60_000,
    100,
  );
  await eventually('the container is healthy', () => isOver() || isHealthy(container), 30_000, 500);
  if (container.child.exitCode !== null) {
    throw new Error(container.output.text);
  }
  return container;
}

describe('the files that the Dockerfile copies, and no others', () => {
  test('start, and create, commit and expire reservations, without writing to the file system but for the archive', async () => {
    expect(packagesAbove(join(image.root, image.workdir))).toEqual([]);
    const { client, output } = await startHealthy();
    const tenant = await client.fundedTenant(1000);
    const committed = await client.hold(tenant, 300);
    expectStatus(await client.commit(tenant, committed, 250), 200);
    const expired = await client.hold(tenant, 400, { ttl_ms: 1000, grace_period_ms: 0 });
    expect(await client.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '350 400 250 0' });
    // Nobody requests this: the sweeper of the same process returns it.
    await eventually(
      'the sweeper expires it',
      async () =>
        (await client.metric('holdfast_expiry_outcomes_total', { source: 'sweep', outcome: 'EXPIRED' })) > 0,
    );
    expect(await client.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '750 0 250 0' });
    expectRefusal(
      await client.call('GET', `/v1/reservations/${expired}`, { key: tenant.key }),
      410,
      'RESERVATION_EXPIRED',
    );
    await eventually('the first charges are archived', () => readdirSync(archive()).length > 0);
    expect(output.text).not.toMatch(/"level":"(warn|error|fatal)"|ERR_ACCESS_DENIED/);
  });

  test('are started by the command of `npm start`', () => {
    const { scripts } = JSON.parse(readFileSync(join(image.root, image.workdir, 'package.json'), 'utf8')) as {
      scripts: { start: string };
    };
    expect(image.command.join(' ')).toBe(scripts.start);
  });

  test('serve the API documentation, whose files come with a package', async () => {
    const { client } = await startHealthy();
    expect((await fetch(`${client.url}/docs/swagger-ui-bundle.js`)).status).toBe(200);
    expect((await fetch(`${client.url}/openapi.json`)).status).toBe(200);
  });

  test('load a bundle and not thousands of files', () => {
    const main = readFileSync(join(image.root, image.workdir, 'dist/main.js'), 'utf8');
    const loaded = [...main.matchAll(/import\(["']([^"']+)["']\)/g)].map(([, path]) => path);
    expect(loaded).toEqual([
      expect.stringMatching(/^\.\/bundle\/worker-group-/),
      expect.stringMatching(/^\.\/bundle\/service-/),
    ]);
  });

  test('include DuckDB, and the script of its process where the bundle looks for it', async () => {
    const bundle = join(image.root, image.workdir, 'dist/bundle');
    const chunk = readdirSync(bundle).find(
      (name) => name.endsWith('.js') && readFileSync(join(bundle, name), 'utf8').includes('usage/duckdb.mjs'),
    );
    expect(chunk).toBeDefined();
    const script = join(bundle, '../usage/duckdb.mjs');
    const duckdb = new QueryProcess(
      { folder: target, memoryMb: 128, spillMb: 0, threads: 1, timeoutMs: patience(30_000) },
      script,
    );
    try {
      expect((await duckdb.run({ sql: 'SELECT 1', parameters: {} })).rows).toEqual([['1']]);
    } finally {
      await duckdb.stop();
    }
  });

  test('include the commands of operators', async () => {
    const { client, port } = await startHealthy();
    await client.createTenant();
    const run = (script: string, ...args: string[]): string => {
      const words = [join(image.root, image.workdir, 'scripts', script), ...args];
      const { stdout, stderr, status } = spawnSync(process.execPath, words, {
        cwd: join(image.root, image.workdir),
        env: environment(port),
        encoding: 'utf8',
        ...IDENTITY,
      });
      expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
      return stdout;
    };
    expect(run('verify.mjs')).toContain('no drift');
    const folder = mkdtempSync(join(target, 'keys-'));
    chmodSync(folder, 0o777);
    run('evidence-keys.mjs', join(folder, 'keys.json'));
    expect(spawnSync('test', ['-s', join(folder, 'keys.json')]).status).toBe(0);
  });

  test('is built and run by the same Node, as an ordinary user', () => {
    expect(image.from).toMatch(/^node:\d+-/);
    expect(image.user).toBe('node');
  });
});

describe('docker compose', () => {
  test('starts nothing without the keys', () => {
    for (const name of Object.keys(KEYS)) {
      expect(() => readCompose(COMPOSE, { ...KEYS, [name]: '' })).toThrow(`required variable ${name}`);
    }
  });

  const redisCli = (...args: string[]): string =>
    spawnSync('redis-cli', ['-p', String(redis.port), ...args], {
      encoding: 'utf8',
      env: { PATH: process.env['PATH'], ...compose.services.redis.environment },
    }).stdout;

  test('the Redis keeps what it acknowledged through a kill of both, and evicts nothing', async () => {
    const { image: redisImage, healthcheck, volumes = [] } = compose.services.redis;
    expect(redisImage).toMatch(/^redis:7\./);
    const [, program, ...args] = healthcheck?.test ?? [];
    expect(program).toBe('redis-cli');
    expect(redisCli(...args)).toBe('PONG\n');
    const withoutPassword = { encoding: 'utf8', env: { PATH: process.env['PATH'] } } as const;
    expect(spawnSync('redis-cli', ['-p', String(redis.port), ...args], withoutPassword).stdout).toContain(
      'NOAUTH',
    );
    const first = await startHealthy();
    const tenant = await first.client.fundedTenant(1000);
    const id = await first.client.hold(tenant, 300);
    // `everysec` may lose the last second if the machine dies. If only the process does, it loses what waits for a slow fsync.
    await eventually('nothing waits', () => redisCli('info', 'persistence').includes('aof_buffer_length:0'));
    await redis.kill();
    first.child.kill('SIGKILL');
    await first.ended;
    await redis.restart();
    const second = await startHealthy();
    expectStatus(await second.client.commit(tenant, id, 300), 200);
    expect(await second.client.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '700 0 300 0' });
    expect(redisCli('config', 'get', 'maxmemory-policy')).toContain('noeviction');
    // The log is in the working folder, which is the volume.
    const [volume, path] = volumes[0]?.split(':') ?? [];
    expect(path).toBe('/data');
    expect(Object.keys(compose.volumes)).toContain(volume);
  });

  test('Holdfast archives on a volume, and its container holds the service and a report of usage', () => {
    const { volumes = [], environment: env, mem_limit: limit = '0m' } = compose.services.holdfast;
    const [volume, path] = volumes[0]?.split(':') ?? [];
    expect(path).toBe(env?.['ARCHIVE_DIR']);
    expect(Object.keys(compose.volumes)).toContain(volume);
    expect(bytes(limit)).toBeGreaterThanOrEqual((300 + CONSTANTS.usageMemoryMb) * 1024 ** 2);
  });

  test('Holdfast is unhealthy without its Redis, and healthy again with it', async () => {
    const container = await startHealthy();
    expect(compose.services.holdfast.depends_on?.['redis']?.condition).toBe('service_healthy');
    await redis.kill();
    await eventually('it is unhealthy', () => !isHealthy(container), 30_000, 200);
    await redis.restart();
    await eventually('it is healthy', () => isHealthy(container), 30_000, 200);
  });

  test('both stop in order within their grace', async () => {
    const { child, ended } = await startHealthy();
    const stopped = async (stop: () => unknown): Promise<number> => {
      const startedAt = performance.now();
      await stop();
      return performance.now() - startedAt;
    };
    const holdfastMs = await stopped(() => {
      child.kill('SIGTERM');
      return ended;
    });
    expect(await ended).toEqual([0, null]);
    expect(holdfastMs).toBeLessThan(patience(seconds(compose.services.holdfast.stop_grace_period) * 1000));
    const redisMs = await stopped(() => redis.stop());
    expect(redisMs).toBeLessThan(patience(seconds(compose.services.redis.stop_grace_period) * 1000));
    redis = await startRedis({ args: (compose.services.redis.command ?? []).slice(1) });
  });

  test("publishes Holdfast's default port", () => {
    const port = CONFIG_VARIABLES.find(({ name }) => name === 'PORT')?.fallback;
    expect(image.exposed).toEqual([port]);
    const { ports, environment: env } = readCompose(COMPOSE, { ...KEYS, PORT: '80' }).services.holdfast;
    expect(compose.services.holdfast.ports).toEqual([`127.0.0.1:7878:${port}`]);
    expect(ports).toEqual([`127.0.0.1:80:${port}`]);
    // The file with all variables is for the container, too, where the port stays.
    expect(env?.['PORT']).toBe(port);
    expect(compose.services.redis.ports).toBeUndefined();
  });

  test('confines every container, and lets Redis refuse before its container ends', () => {
    for (const { read_only, cap_drop, security_opt, mem_limit } of Object.values(compose.services)) {
      expect({ read_only, cap_drop, security_opt }).toEqual({
        read_only: true,
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
      });
      expect(bytes(mem_limit ?? '')).toBeGreaterThan(0);
    }
    const { command = [], mem_limit = '', user } = compose.services.redis;
    // A rewrite of the log copies what changes meanwhile.
    expect(bytes(command[command.indexOf('--maxmemory') + 1] ?? '')).toBeLessThanOrEqual(
      bytes(mem_limit) * 0.75,
    );
    expect(user).toBe('redis');
  });

  test('takes any variable from a file, of which there is an example', () => {
    expect(compose.services.holdfast.env_file).toEqual([{ path: '.env', required: false }]);
    const example = readFileSync(new URL('.env.example', ROOT), 'utf8');
    const named = [...example.matchAll(/^(?:# )?([A-Z_]+)=/gm)].map(([, name]) => name as string);
    expect(named).toEqual([...Object.keys(KEYS), 'PORT', 'REDIS_MAXMEMORY', 'REDIS_MEMORY_LIMIT']);
  });

  test('bounds the logs of every container', () => {
    for (const { logging } of Object.values(compose.services)) {
      expect(logging).toEqual({ driver: 'json-file', options: { 'max-size': '10m', 'max-file': '3' } });
    }
  });
});
