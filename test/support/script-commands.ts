import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { Cluster } from 'ioredis';
import { randomText } from './ledger-client.js';
import type { StoreClient } from './store.js';

/** A line of MONITOR: its time, the database with who sent the command, and the command's words in quotes. */
const LINE = /^\+[\d.]+ \[\d+ (\S+)\] (.*)$/;
const WORD = /"((?:[^"\\]|\\.)*)"/g;

/**
 * The commands that scripts ran meanwhile, name first, of those that name `about` in a key. What a run looks at can so be asserted
 * exactly, where its time could not.
 *
 * It reads MONITOR from a socket of its own: ioredis fails where the first lines come in one read with the answer to MONITOR itself.
 */
export async function commandsOf(
  redis: StoreClient,
  about: string,
  act: () => Promise<unknown>,
): Promise<string[][]> {
  if (redis instanceof Cluster) {
    throw new Error('only one Redis can be watched');
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
    throw new Error(`MONITOR answered ${String(line)}`);
  }
}
