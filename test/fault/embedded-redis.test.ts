import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { parse } from 'yaml';

import { DataDirLock } from '../../src/redis/embedded/data-dir-lock.js';
import { defaultMaxmemoryBytes, prepareDirectories, redisArguments } from '../../src/redis/embedded/setup.js';
import { StoreBootError } from '../../src/redis/errors.js';
import { parseInfo } from '../../src/redis/memory-guard.js';
import { eventually } from '../support/eventually.js';
import { endFlushes, makeLogFolder } from '../support/log-folder.js';
import { startRedisService, stopAllRedisServices, type RunningService } from '../support/redis-service.js';

let dataDir = '';
const strays = new Set<number>();

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'holdfast-test-data-'));
});

afterEach(async () => {
  await stopAllRedisServices();
  for (const pid of strays) {
    killIfAlive(pid);
  }
  strays.clear();
  rmSync(dataDir, { recursive: true, force: true });
});

function killIfAlive(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return false;
  }
}

function start(env: Record<string, string> = {}): Promise<RunningService> {
  return startRedisService({ DATA_DIR: dataDir, ...env });
}

async function info({ service }: RunningService): Promise<ReadonlyMap<string, string>> {
  const client = service.client as Redis;
  return parseInfo(await client.info());
}

async function pidOf(running: RunningService): Promise<number> {
  return Number((await info(running)).get('process_id'));
}

async function failureOf(promise: Promise<unknown>): Promise<Error> {
  return promise.then(
    () => new Error('it did not fail'),
    (error: unknown) => error as Error,
  );
}

describe('the embedded Redis', () => {
  test('listens on no port, never evicts, logs every write, and only its owner reaches its socket', async () => {
    const running = await start();
    const client = running.service.client as Redis;
    const found = await info(running);
    expect(found.get('tcp_port')).toBe('0');
    expect(found.get('maxmemory_policy')).toBe('noeviction');
    expect(found.get('aof_enabled')).toBe('1');
    const settings = await client.config('GET', 'appendfsync', 'lazyfree-lazy-expire', 'save');
    expect(settings).toEqual(
      expect.arrayContaining(['appendfsync', 'everysec', 'lazyfree-lazy-expire', 'yes', 'save', '']),
    );
    expect(statSync(join(dataDir, 'redis')).mode & 0o777).toBe(0o700);
  });

  test('has every setting of the page about Redis, as has the one of the compose file', async () => {
    const page = readFileSync(new URL('../../docs/redis.md', import.meta.url), 'utf8');
    const table = /<!-- settings -->([^]*?)<!-- \/settings -->/.exec(page)?.[1] ?? '';
    const rows = [...table.matchAll(/^\| `([\w-]+)` \| (?:`(\w+)`|see below) \|/gm)];
    const listed = rows.map(([, name = '', value]): [string, string] => [
      name,
      value ?? String(defaultMaxmemoryBytes(1)),
    ]);
    expect(listed.length).toBe(table.split('\n').filter((line) => line.startsWith('| `')).length);
    expect(listed.length).toBeGreaterThan(8);
    const client = (await start()).service.client as Redis;
    const found = await client.config('GET', ...listed.map(([name]) => name));
    const inForce = Object.fromEntries(
      Array.from({ length: found.length / 2 }, (_, i) => [found[2 * i], found[2 * i + 1]]),
    );
    expect(inForce).toEqual(Object.fromEntries(listed));

    const compose = parse(readFileSync(new URL('../../docker-compose.yml', import.meta.url), 'utf8')) as {
      services: { redis: { command: string[] } };
    };
    const [, ...words] = compose.services.redis.command;
    for (const [name, value] of listed) {
      const given = words[words.indexOf(`--${name}`) + 1];
      expect([name, given]).toEqual([name, name === 'maxmemory' ? '${REDIS_MAXMEMORY:-1gb}' : value]);
    }
  });

  test.each([
    ['48mb', 48 * 1024 ** 2],
    ['0', 0],
  ])('has the memory that REDIS_MAXMEMORY=%s gives it, and readiness warns of none', async (given, bytes) => {
    const { service } = await start({ REDIS_MAXMEMORY: given });
    expect((await service.memory()).maxmemoryBytes).toBe(bytes);
    const { ready, warnings } = await service.status();
    expect({ ready, warnings: warnings.length }).toEqual({ ready: true, warnings: bytes === 0 ? 1 : 0 });
  });

  test.each([
    ['a machine of 8 GB', 1, 8192, undefined, 5888],
    ['a container without a limit', 1, 8192, 0, 5888],
    ['a container of 2 GB', 1, 8192, 2048, 1280],
    ['cgroup v1 without a limit', 1, 8192, 2 ** 43, 5888],
    ['four workers and their parent', 5, 8192, undefined, 4864],
    ['a container that is too small', 1, 8192, 256, 64],
  ])('may use three quarters, less the share of the service: %s', (_what, processes, total, limit, most) => {
    const MB = 1024 ** 2;
    expect(defaultMaxmemoryBytes(processes, total * MB, limit === undefined ? undefined : limit * MB)).toBe(
      most * MB,
    );
  });

  test('ends with the service and releases the directory, and the next start finds its data', async () => {
    const first = await start();
    const pid = await pidOf(first);
    await first.service.client.set('kept', 'yes');
    await first.service.onApplicationShutdown();
    expect(isAlive(pid)).toBe(false);
    expect(existsSync(join(dataDir, 'holdfast.lock'))).toBe(false);
    const second = await start();
    expect(await second.service.client.get('kept')).toBe('yes');
  });

  test('works in a directory whose name is too long for a socket', async () => {
    const long = join(dataDir, 'a'.repeat(120));
    const running = await startRedisService({ DATA_DIR: long });
    await running.service.ping();
    const { socket } = prepareDirectories(long);
    expect(socket.startsWith(long)).toBe(false);
    await running.service.onApplicationShutdown();
    rmSync(join(socket, '..'), { recursive: true, force: true });
  });

  for (const appendfsync of ['always', 'everysec']) {
    test(`is started again when it is killed, and loses nothing acknowledged (appendfsync ${appendfsync})`, async () => {
      rmSync(dataDir, { recursive: true });
      dataDir = makeLogFolder(appendfsync, 'holdfast-test-data-');
      const running = await start({ REDIS_APPENDFSYNC: appendfsync });
      const { client } = running.service;
      const pid = await pidOf(running);
      const acknowledged: string[] = [];
      let next = 0;
      const writeOne = async (): Promise<void> => {
        const key = `written:${(next += 1)}`;
        if ((await client.set(key, 'v')) === 'OK') {
          acknowledged.push(key);
        }
      };
      const writeSome = () => Promise.allSettled(Array.from({ length: 50 }, writeOne));
      while (acknowledged.length <= 500) {
        await writeSome();
      }
      await endFlushes(appendfsync, client);
      const underWay = writeSome();
      killIfAlive(pid);
      await underWay;
      await eventually('it is back', async () => (await client.ping()) === 'PONG');

      expect(await pidOf(running)).not.toBe(pid);
      const found = await client.mget(acknowledged);
      expect(found.filter((value) => value !== 'v')).toEqual([]);
      expect(acknowledged.length).toBeGreaterThan(500);
      expect(await running.metric('holdfast_embedded_redis_restarts_total')).toBe(1);
      expect(
        running.log.filter(
          ({ level, msg }) => level === 'error' && msg.startsWith('THE EMBEDDED REDIS EXITED'),
        ),
      ).toHaveLength(1);
      await eventually('readiness is back', async () => (await running.service.status()).ready);
    });
  }
});

describe('after Holdfast was killed', () => {
  /**
   * Starts a process that starts the embedded Redis as Holdfast does, writes the lock, and is then killed.
   */
  async function leaveOrphan(): Promise<number> {
    const directories = prepareDirectories(dataDir);
    const script = `
      const { spawn } = require('node:child_process');
      const { writeFileSync } = require('node:fs');
      const child = spawn('redis-server', ${JSON.stringify(redisArguments(directories, { appendFsync: 'everysec', maxmemoryBytes: 0 }))}, { detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
      writeFileSync(${JSON.stringify(join(dataDir, 'holdfast.lock'))}, process.pid + ' \\n');
      process.stdout.write(String(child.pid) + '\\n');
      setInterval(() => undefined, 1000);`;
    const parent = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    strays.add(parent.pid ?? 0);
    const [line] = (await once(parent.stdout, 'data')) as [Buffer];
    const orphan = Number(line.toString());
    strays.add(orphan);
    const writer = new Redis({ path: directories.socket });
    writer.on('error', () => undefined);
    await writer.set('written-by-the-killed-one', 'yes');
    await writer.quit();
    parent.kill('SIGKILL');
    await once(parent, 'exit');
    return orphan;
  }

  test('an orphaned Redis is shut down, its data kept, and the stale lock taken over', async () => {
    const orphan = await leaveOrphan();
    expect(isAlive(orphan)).toBe(true);
    const running = await start();
    expect(isAlive(orphan)).toBe(false);
    expect(await running.service.client.get('written-by-the-killed-one')).toBe('yes');
    expect(running.log.some(({ level, msg }) => level === 'warn' && msg.includes('left running'))).toBe(true);
  });

  test('a Redis that another Holdfast is connected to is not touched, whatever the lock says', async () => {
    const orphan = await leaveOrphan();
    const other = new Redis({ path: join(dataDir, 'redis', 'redis.sock'), connectionName: 'holdfast' });
    await other.ping();
    const failure = await failureOf(start());
    expect(failure).toBeInstanceOf(StoreBootError);
    expect(failure.message).toBe(
      `DATA_DIR ${dataDir} is in use by another Holdfast; stop it or give another DATA_DIR`,
    );
    expect(isAlive(orphan)).toBe(true);
    await other.quit();
  });

  test('a socket file without a listener does not prevent the start', async () => {
    const orphan = await leaveOrphan();
    killIfAlive(orphan);
    await eventually('it is gone', () => !isAlive(orphan));
    expect(existsSync(join(dataDir, 'redis', 'redis.sock'))).toBe(true);
    const running = await start();
    expect(await running.service.client.get('written-by-the-killed-one')).toBe('yes');
  });
});

describe('a start that must fail says why in one line', () => {
  test('a directory that another Holdfast holds, which continues undisturbed', async () => {
    const first = await start();
    const failure = await failureOf(start());
    expect(failure.message).toBe(
      `DATA_DIR ${dataDir} is in use by another Holdfast (pid ${process.pid}); stop it or give another DATA_DIR`,
    );
    await first.service.ping();
    expect(existsSync(join(dataDir, 'holdfast.lock'))).toBe(true);
  });

  test('a directory that was locked again, though who had it before lets go of it twice', () => {
    const first = DataDirLock.acquire(dataDir);
    first.release();
    const second = DataDirLock.acquire(dataDir);
    first.release();
    expect(() => DataDirLock.acquire(dataDir)).toThrow('is in use by another Holdfast');
    second.release();
    expect(existsSync(join(dataDir, 'holdfast.lock'))).toBe(false);
  });

  test('a directory whose lock names another living process', async () => {
    const other = spawn('sleep', ['60'], { stdio: 'ignore' });
    await once(other, 'spawn');
    strays.add(other.pid ?? 0);
    writeFileSync(join(dataDir, 'holdfast.lock'), `${other.pid} \n`);
    expect((await failureOf(start())).message).toContain(`is in use by another Holdfast (pid ${other.pid})`);
  });

  test('a lock whose process id now belongs to another process is taken over', async () => {
    const other = spawn('sleep', ['60'], { stdio: 'ignore' });
    await once(other, 'spawn');
    strays.add(other.pid ?? 0);
    writeFileSync(join(dataDir, 'holdfast.lock'), `${other.pid} an-earlier-boot/1\n`);
    await (await start()).service.ping();
  });

  test('no redis-server and no valkey-server on PATH', async () => {
    const path = process.env['PATH'];
    process.env['PATH'] = dataDir;
    try {
      expect((await failureOf(start())).message).toBe(
        'neither redis-server nor valkey-server (7.0 or newer) is on PATH; install one of them, or set REDIS_URL',
      );
    } finally {
      process.env['PATH'] = path;
    }
  });

  test('a directory that cannot be written', async () => {
    const file = join(dataDir, 'a-file');
    writeFileSync(file, '');
    const failure = await failureOf(startRedisService({ DATA_DIR: join(file, 'below') }));
    expect(failure.message).toBe(
      `DATA_DIR ${join(file, 'below')} is not writable (ENOTDIR); give a writable directory, or set REDIS_URL`,
    );
  });

  test('a redis-server that exits immediately', async () => {
    const path = process.env['PATH'];
    const fake = join(dataDir, 'redis-server');
    writeFileSync(fake, '#!/bin/sh\necho this machine is too odd\nexit 1\n');
    chmodSync(fake, 0o755);
    process.env['PATH'] = `${dataDir}:${path}`;
    try {
      expect((await failureOf(start())).message).toBe(
        'the embedded Redis is not running (this machine is too odd)',
      );
    } finally {
      process.env['PATH'] = path;
    }
    expect(existsSync(join(dataDir, 'holdfast.lock'))).toBe(false);
  });

  test('a damaged log, which is not changed', async () => {
    const first = await start();
    await first.service.client.set('k', 'v');
    await first.service.onApplicationShutdown();
    const directory = join(dataDir, 'redis', 'appendonlydir');
    const log = join(directory, readdirSync(directory).find((name) => name.endsWith('.incr.aof')) ?? '');
    appendFileSync(log, 'this is no command\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n');
    const size = statSync(log).size;
    expect((await failureOf(start())).message).toMatch(
      /^the embedded Redis is not running \(Bad file format reading the append only file.*\)$/,
    );
    expect(statSync(log).size).toBe(size);
  });
});
