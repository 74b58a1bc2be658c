import type { Worker } from 'node:cluster';
import { EventEmitter } from 'node:events';
import { beforeEach, expect, test } from '@jest/globals';
import { Gauge, Registry } from 'prom-client';
import { GroupMetrics, joinGroupMetrics } from '../../src/telemetry/group-metrics.js';
import { createLogger } from '../../src/telemetry/logger.js';
import { eventually } from '../support/eventually.js';

interface Message {
  readonly kind: string;
  readonly id: number;
  readonly report?: unknown;
}

const logged: { msg: string; err: { message: string } }[] = [];
const logger = createLogger('warn', { write: (line: string) => void logged.push(JSON.parse(line)) });

beforeEach(() => {
  logged.splice(0);
});

test('a worker whose own metrics cannot be read logs the cause', async () => {
  const registry = new Registry();
  new Gauge({
    name: 'broken',
    help: 'fails',
    registers: [registry],
    collect: () => Promise.reject(new Error('no such file')),
  });
  const parent = new EventEmitter();
  joinGroupMetrics(registry, logger, parent);
  parent.emit('message', { kind: 'report', id: 1 });
  await eventually('it is logged', () => logged.length > 0);
  expect(logged).toMatchObject([
    { msg: 'a worker cannot read its own metrics', err: { message: 'no such file' } },
  ]);
});

test('a parent that cannot add up the metrics of its workers logs the cause', async () => {
  const worker = Object.assign(new EventEmitter(), {
    isDead: () => false,
    send: ({ kind, id }: Message) => {
      if (kind === 'report') {
        const values = [{ value: 1, labels: {} }];
        const report = [{ name: 'x', help: 'x', type: 'gauge', aggregator: 'unknown', values }];
        worker.emit('message', { kind: 'reported', id, report } satisfies Message);
      }
    },
  });
  const group = new GroupMetrics(() => [worker as unknown as Worker], logger);
  group.follow(worker as unknown as Worker);
  worker.emit('message', { kind: 'scrape', id: 1 } satisfies Message);
  await eventually('it is logged', () => logged.length > 0);
  expect(logged).toMatchObject([
    {
      msg: 'the metrics of the workers cannot be added up',
      err: { message: expect.stringContaining('unknown') },
    },
  ]);
});
