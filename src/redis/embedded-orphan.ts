import { existsSync, rmSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

import { Redis } from 'ioredis';

import type { Logger } from '../logging/index.js';
import { CONNECTION_NAME } from './connection.js';
import { StoreBootError } from './errors.js';

const ANSWER_TIMEOUT_MS = 3000;
const STOP_TIMEOUT_MS = 30_000;
const POLL_MS = 20;

/**
 * A Holdfast that was killed leaves its Redis running. It is asked to shut down, which flushes all it has, before ours
 * starts on the same files. One that another Holdfast is connected to is no orphan: then this start is refused.
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
      throw new StoreBootError(`a Redis at ${socket} does not answer; end it, or give another DATA_DIR`);
    }
    // Nobody listens: the socket file is all that a killed Redis left.
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
    logger.warn(
      { socket },
      'a Redis was left running by a Holdfast that was killed; it is asked to shut down',
    );
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
    // It may still be loading its data; it can be shut down even so.
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
      throw new StoreBootError(`a Redis at ${socket} does not shut down; end it, or give another DATA_DIR`);
    }
    await delay(POLL_MS);
  }
}
