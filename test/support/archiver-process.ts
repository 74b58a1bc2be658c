import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Redis } from 'ioredis';
import { readPlaces } from '../../src/archive/archive-places.js';
import type { RedisService } from '../../src/redis/index.js';
import { journalKey, tagOfPartition } from '../../src/redis/keyspace.js';
import { debit } from './admission-client.js';
import { eventually } from './eventually.js';
import { LedgerClient, randomText } from './ledger-client.js';
import { serverTimeMs } from './server-time.js';

/** Archivers in processes of their own, and what they archive. */

export const PARTITIONS = 4;
const PAUSE_MS = 20;
const PROGRAM = fileURLToPath(new URL('../../.test-dist/archiver/program.mjs', import.meta.url));

/** Makes the program of `startArchiver`. @throws the bundler's output if it fails */
export function buildArchiver(): void {
  mkdirSync(dirname(PROGRAM), { recursive: true });
  const bundler = fileURLToPath(new URL('archiver-bundle.mjs', import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, [bundler, PROGRAM], { encoding: 'utf8' });
  if (status !== 0) {
    throw new Error(stderr);
  }
  // The thread is loaded by its path from the program. `npm test` has built it; a file that is run alone has not.
  cpSync(new URL('../../src/archive', import.meta.url), join(dirname(PROGRAM), '../archive'), {
    recursive: true,
    force: false,
    filter: (path) => !path.endsWith('.ts'),
  });
}

/** What readers of the archive need of a service. */
export const serviceOf = (client: Redis): RedisService =>
  ({ client, partitions: PARTITIONS }) as unknown as RedisService;

/** Ends and debits in all partitions until it is stopped, with packing beside them. @returns what each record was charged, by its id */
export function load(client: Redis): { readonly charges: Map<string, number>; stop(): Promise<void> } {
  const charges = new Map<string, number>();
  let isOver = false;
  const work = async (number: number): Promise<void> => {
    const ledger = new LedgerClient(client, tagOfPartition(number), `acme-${number}`);
    await ledger.makeBudget({ allocated: 1_000_000_000 });
    for (let amount = 1; !isOver; amount += 1) {
      // The archivers get the processor, too.
      await delay(PAUSE_MS);
      const { id } = await ledger.hold({ amount: 10_000, key: randomText(12) });
      if (amount % 3 === 0) {
        await ledger.release(id);
        charges.set(id, 0);
      } else {
        await ledger.commit(id, amount % 100);
        charges.set(id, amount % 100);
      }
      const [, , debitId = ''] = await debit(ledger, { amount: 2, key: randomText(12) });
      charges.set(debitId, 2);
      if (amount % 10 === 0) {
        await ledger.scripts.run('pack_records', [journalKey(ledger.tag)], [50]);
      }
    }
  };
  const running = Array.from({ length: PARTITIONS }, (_, number) => work(number));
  return {
    charges,
    stop: async () => {
      isOver = true;
      await Promise.all(running);
    },
  };
}

export interface Archiver {
  readonly child: ChildProcess;
  readonly output: { stdout: string; stderr: string };
}

/** @param launcher a command that runs another one */
export function startArchiver(port: number, root: string, launcher: readonly string[] = []): Archiver {
  const [command = '', ...args] = [
    ...launcher,
    process.execPath,
    PROGRAM,
    String(port),
    root,
    String(PARTITIONS),
  ];
  const child = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  child.stdout.on('data', (text: Buffer) => (output.stdout += text.toString()));
  child.stderr.on('data', (text: Buffer) => (output.stderr += text.toString()));
  return { child, output };
}

export async function kill({ child }: Archiver): Promise<void> {
  const ended = once(child, 'close');
  child.kill('SIGKILL');
  await ended;
}

/** Begins the archive, so that the journal keeps for it what ends from now on. */
export async function begin(client: Redis, port: number, root: string): Promise<void> {
  const archiver = startArchiver(port, root);
  await eventually(
    'the archive begins',
    async () => (await readPlaces(serviceOf(client), 'charges')).size === PARTITIONS,
  );
  await kill(archiver);
}

/** Waits until everything up to now is archived. */
export async function allArchived(client: Redis): Promise<void> {
  const endMs = await serverTimeMs(client);
  const isArchived = async (): Promise<boolean> => {
    const through = [...(await readPlaces(serviceOf(client), 'charges')).values()].map(
      ({ throughMs }) => throughMs,
    );
    return through.length === PARTITIONS && through.every((ms) => ms >= endMs);
  };
  await eventually('everything to be archived', isArchived, 60_000);
}
