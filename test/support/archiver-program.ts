// An archiver alone, for tests that kill it: the service's own classes, with what the application would give them.
// Arguments: the port of Redis, the folder, the number of partitions. Writes a line when each of its turns has ended.
import 'reflect-metadata';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { ArchiverService } from '../../src/archive/archiver.service.js';
import { ScriptRegistry } from '../../src/redis/scripts.js';

const [port = '', root = '', partitions = ''] = process.argv.slice(2);
const client = new Redis(Number(port));
const log = (...texts: unknown[]): boolean => process.stderr.write(`${JSON.stringify(texts)}\n`);
const instrument = {
  inc: () => undefined,
  set: () => undefined,
  observe: () => undefined,
  readFrom: () => undefined,
};
const service = new ArchiverService(
  {
    client,
    partitions: Number(partitions),
    deployment: { id: 'dep_alone' },
    clock: { readLedgerMs: () => Promise.resolve(Date.now()) },
    scripts: new ScriptRegistry(client),
    inOneWrite: (send: () => unknown) => send(),
  } as never,
  { add: () => undefined } as never,
  { of: () => new Proxy({}, { get: () => instrument }) } as never,
  {
    archiveDir: root,
    roles: new Set(['archiver']),
    archiveMetadata: true,
    archiveLeaseMs: 150,
    archiveSettleMs: 0,
    archiveFlushMs: 0,
    // So few that most kills find a file half written or a cursor not yet moved.
    archiveFileRows: 40,
    archiveTimeShare: 100,
    archiveLateTimeShare: 100,
    archiveLateMs: 90_000,
    archiveAlertMs: 900_000,
  } as never,
  { info: () => undefined, warn: log, error: log } as never,
);

const turn = { goesOn: () => true };
for (;;) {
  await service.runTurn(turn).catch((error: unknown) => log(String(error)));
  process.stdout.write('turn\n');
  await delay(1);
}
