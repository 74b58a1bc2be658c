import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { Cluster } from 'ioredis';
import { randomText } from './ledger-client.js';
import type { StoreClient } from './store.js';

/** A line of MONITOR: the time, the database and the client, and the command's words in quotes. */
const LINE = /^\+[\d.]+ \[\d+ (\S+)\] (.*)$/;
const WORD = /"((?:[^"\\]|\\.)*)"/g;

/**
 * The commands that scripts ran while `act` was running and that have a key containing `about`, each with its
 * name first. This way a test can assert exactly what a run reads, which its duration would not tell.
 * Uses its own socket for MONITOR: ioredis fails if the first lines arrive in one read with the reply to
 * MONITOR.
 */
export async function commandsOf(
  redis: StoreClient,
  about: string,
  act: () => Promise<unknown>,
): Promise<string[][]> {
  if (redis instanceof Cluster) {
    throw new Error('MONITOR needs a single Redis');
  }
  const { host = '127.0.0.1', port = 6379 } = redis.options;
  const socket = connect(port, host);
  const lines = createInterface({ input: socket, crlfDelay: Infinity });
  const commands: string[][] = [];
  const end = randomText(12);
  const started = once(lines, 'line');
  const isOver = new Promise<void>((resolve) => {
    lines.on('line', (line) => {
      const [, source = '', text = ''] = LINE.exec(line) ?? [];
      const words = [...text.matchAll(WORD)].map(([, word]) => (word as string).replace(/\\(["\\])/g, '$1'));
      if (words.includes(end)) {
        resolve();
      } else if (source.includes('lua') && words.some((word) => word.includes(about))) {
        commands.push([(words[0] as string).toUpperCase(), ...words.slice(1)]);
      }
    });
  });
  try {
    socket.write('MONITOR\r\n');
    expectOk(await started);
    await act();
    await redis.echo(end);
    await isOver;
  } finally {
    lines.close();
    socket.destroy();
  }
  return commands;
}

function expectOk([line]: unknown[]): void {
  if (line !== '+OK') {
    throw new Error(`MONITOR replied ${String(line)}`);
  }
}
