// An archiver alone, for tests that kill it: the service's own classes from its build, with what the application would give them.
// Arguments: the port of Redis, the folder, the number of partitions. Writes a line when its first turn has ended.
import 'reflect-metadata';
import { Redis } from 'ioredis';

/** @type {(path: string) => Promise<unknown>} */
const load = (path) => import(`../../.test-dist/${path}`);
const [port = '', root = '', partitions = ''] = process.argv.slice(2);
const { ArchiverService } = /** @type {typeof import('../../src/archive/archiver.service.ts')} */ (
  await load('archive/archiver.service.js')
);
const { ScriptRegistry } = /** @type {typeof import('../../src/redis/scripts.ts')} */ (
  await load('redis/scripts.js')
);

const client = new Redis(Number(port));
const log = (/** @type {unknown[]} */ ...texts) => process.stderr.write(`${JSON.stringify(texts)}\n`);
const logger = { info: () => undefined, warn: log, error: log };
/** @type {unknown} */
const metrics = {
  of: () => new Proxy({}, { get: () => ({ inc() {}, set() {}, observe() {}, readFrom() {} }) }),
};
const service = new ArchiverService(
  /** @type {never} */ ({
    client,
    partitions: Number(partitions),
    scripts: new ScriptRegistry(client),
    inOneWrite: (/** @type {() => unknown} */ send) => send(),
  }),
  /** @type {never} */ ({ add: () => undefined }),
  /** @type {never} */ ({ register: () => undefined }),
  /** @type {never} */ (metrics),
  /** @type {never} */ ({
    archiveDir: root,
    roles: new Set(['archiver']),
    archiveMetadata: true,
    archiveLeaseMs: 150,
    archiveSettleMs: 0,
    archiveFlushMs: 0,
    // So few that most kills find a file half written or a cursor not yet moved.
    archiveFileRows: 40,
    archiveTimeShare: 100,
    archiveAlertMs: 900_000,
  }),
  /** @type {never} */ (logger),
);

const turn = { goesOn: () => true };
for (;;) {
  await service.runTurn(turn).catch((/** @type {unknown} */ error) => log(String(error)));
  process.stdout.write('turn\n');
  await new Promise((resolve) => setTimeout(resolve, 1));
}
