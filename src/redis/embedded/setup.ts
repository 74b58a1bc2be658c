import { createHash } from 'node:crypto';
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  realpathSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir, totalmem } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { searchPath } from '../../config/index.js';
import type { Logger } from '../../telemetry/index.js';
import { CONNECTION_NAME } from '../connection.js';
import { StoreBootError } from '../errors.js';

export interface EmbeddedDirectories {
  readonly data: string;
  readonly socket: string;
}

/** The path of a Unix socket has at most 104 bytes on macOS and 108 on Linux, including the final NUL. */
const LONGEST_SOCKET_PATH = 100;
const BINARIES = ['redis-server', 'valkey-server'] as const;

/** Finds redis-server, or else valkey-server, on PATH. @throws StoreBootError if neither is there. */
export function findRedisBinary(): string {
  const directories = searchPath()
    .split(delimiter)
    .filter((one) => one !== '');
  for (const name of BINARIES) {
    const found = directories.map((directory) => join(directory, name)).find(isExecutable);
    if (found !== undefined) {
      return found;
    }
  }
  throw new StoreBootError(
    'neither redis-server nor valkey-server (7.0 or newer) is on PATH; install one of them, or set REDIS_URL',
  );
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

/** Creates the data directory, and a directory for the socket if the path in the data directory would be too long. */
export function prepareDirectories(dataDir: string): EmbeddedDirectories {
  const data = join(dataDir, 'redis');
  makePrivate(data, 'DATA_DIR');
  const socket = join(data, 'redis.sock');
  if (Buffer.byteLength(socket) <= LONGEST_SOCKET_PATH) {
    return { data, socket };
  }
  // Derived from the data directory, so that the next start finds the socket of an orphan.
  const digest = createHash('sha256').update(realpathSync(data)).digest('hex').slice(0, 16);
  const directory = join(tmpdir(), `holdfast-${digest}`);
  makePrivate(directory, 'the temporary directory');
  return { data, socket: join(directory, 'redis.sock') };
}

/** Where the embedded Redis of a data directory listens. */
export function embeddedSocket(dataDir: string): string {
  return prepareDirectories(resolve(dataDir)).socket;
}

/** Refuses a directory of another user, who could have created one with a predictable name in /tmp. */
function makePrivate(directory: string, what: string): void {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    const found = lstatSync(directory);
    if (!found.isDirectory() || (process.getuid !== undefined && found.uid !== process.getuid())) {
      throw new StoreBootError(`${directory} belongs to another user; remove it or give another DATA_DIR`);
    }
    chmodSync(directory, 0o700);
    accessSync(directory, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    if (error instanceof StoreBootError) {
      throw error;
    }
    const { code } = error as NodeJS.ErrnoException;
    throw new StoreBootError(
      `${directory} cannot be used (${code}); make ${what} writable, or set REDIS_URL`,
    );
  }
}

/** A process of the service needs about this much memory under load. */
const BYTES_OF_PROCESS = 256 * 1024 ** 2;
const LEAST_MAXMEMORY_BYTES = 64 * 1024 ** 2;

/**
 * What the embedded Redis may use unless REDIS_MAXMEMORY says otherwise. The quarter is for buffers and for what changes while a fork
 * rewrites the log.
 * @param limitBytes of the cgroup; 0 or undefined if there is none
 */
export function defaultMaxmemoryBytes(
  processes: number,
  totalBytes = totalmem(),
  limitBytes: number | undefined = process.constrainedMemory(),
): number {
  const available = Math.min(totalBytes, limitBytes || totalBytes);
  return Math.max(LEAST_MAXMEMORY_BYTES, Math.floor(available * 0.75) - processes * BYTES_OF_PROCESS);
}

export interface EmbeddedSettings {
  readonly appendFsync: string;
  readonly maxmemoryBytes: number;
}

/** The whole configuration of the child. It reads no file, so it always has the settings that docs/redis.md lists. */
export function redisArguments(
  directories: EmbeddedDirectories,
  { appendFsync, maxmemoryBytes }: EmbeddedSettings,
): string[] {
  const settings: Record<string, string> = {
    port: '0',
    unixsocket: directories.socket,
    unixsocketperm: '700',
    dir: directories.data,
    daemonize: 'no',
    logfile: '',
    save: '',
    appendonly: 'yes',
    appendfsync: appendFsync,
    'aof-use-rdb-preamble': 'yes',
    maxmemory: String(maxmemoryBytes),
    'maxmemory-policy': 'noeviction',
    'lazyfree-lazy-expire': 'yes',
    hz: '10',
    'dynamic-hz': 'yes',
    'active-expire-effort': '1',
    'hash-max-listpack-value': '64',
    'hash-max-listpack-entries': '128',
    timeout: '0',
  };
  return Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
}

const ANSWER_TIMEOUT_MS = 3000;
const STOP_TIMEOUT_MS = 30_000;
const POLL_MS = 20;

/**
 * Shuts down the Redis that a killed Holdfast left running on the same files, which flushes its data. If another Holdfast is connected
 * to it, it is not an orphan, and this start is refused.
 * @throws StoreBootError
 */
export async function stopOrphan(socket: string, dataDir: string, logger: Logger): Promise<void> {
  if (!existsSync(socket)) {
    return;
  }
  const client = connectTo(socket);
  try {
    await client.connect();
  } catch {
    client.disconnect();
    if (await isListening(socket)) {
      throw new StoreBootError(`a Redis at ${socket} does not answer; stop it, or give another DATA_DIR`);
    }
    // Nothing listens, so this is the socket file of a killed Redis.
    rmSync(socket, { force: true });
    return;
  }
  try {
    const clients = String(await client.client('LIST'));
    if (clients.split('\n').some((line) => line.includes(` name=${CONNECTION_NAME} `))) {
      throw new StoreBootError(
        `DATA_DIR ${dataDir} is in use by another Holdfast; stop it or give another DATA_DIR`,
      );
    }
    logger.warn({ socket }, 'shutting down a Redis that a killed Holdfast left running');
    await client.shutdown().catch(() => undefined);
    await waitUntilGone(socket);
  } finally {
    client.disconnect();
  }
}

function connectTo(socket: string): Redis {
  const client = new Redis({
    path: socket,
    lazyConnect: true,
    retryStrategy: null,
    // SHUTDOWN works even while it is loading its data.
    enableReadyCheck: false,
    connectTimeout: ANSWER_TIMEOUT_MS,
    commandTimeout: ANSWER_TIMEOUT_MS,
    socketTimeout: ANSWER_TIMEOUT_MS,
    connectionName: 'holdfast-start',
  });
  client.on('error', () => undefined);
  return client;
}

async function isListening(socket: string): Promise<boolean> {
  const { connect } = await import('node:net');
  return new Promise((done) => {
    const probe = connect(socket);
    probe.once('connect', () => {
      probe.destroy();
      done(true);
    });
    probe.once('error', () => done(false));
  });
}

async function waitUntilGone(socket: string): Promise<void> {
  const deadline = performance.now() + STOP_TIMEOUT_MS;
  while (await isListening(socket)) {
    if (performance.now() > deadline) {
      throw new StoreBootError(`a Redis at ${socket} does not shut down; stop it, or give another DATA_DIR`);
    }
    await delay(POLL_MS);
  }
}
