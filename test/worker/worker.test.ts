import { Writable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import type { Provider } from '@nestjs/common';
import { ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { Test, type TestingModule } from '@nestjs/testing';
import { CONFIG, type HoldfastConfig } from '../../src/config/index.js';
import { StoreUnavailable } from '../../src/redis/index.js';
import {
  createLogger,
  HealthContributors,
  LOGGER,
  MetricsRegistry,
  ShutdownState,
} from '../../src/telemetry/index.js';
import { Worker, type Job, type Turn } from '../../src/worker/index.js';

let scheduler: SchedulerRegistry;
let metrics: MetricsRegistry;
let module: TestingModule;
let log: Record<string, unknown>[];

beforeEach(async () => {
  jest.useFakeTimers();
  log = [];
  const destination = new Writable({
    write(line: Buffer, _encoding, done) {
      log.push(JSON.parse(line.toString()) as Record<string, unknown>);
      done();
    },
  });
  const config = { roles: new Set(['janitor']), metricsTenantLabel: true } as unknown as HoldfastConfig;
  metrics = new MetricsRegistry(config);
  const given: Provider[] = [
    { provide: CONFIG, useValue: config },
    { provide: MetricsRegistry, useValue: metrics },
    { provide: LOGGER, useValue: createLogger('warn', destination) },
  ];
  module = await Test.createTestingModule({
    imports: [ScheduleModule.forRoot()],
    providers: [...given, HealthContributors, ShutdownState, Worker],
  }).compile();
  scheduler = module.get(SchedulerRegistry);
});

afterEach(() => {
  jest.useRealTimers();
  metrics.registry.clear();
});

async function start(job: Partial<Job> & Pick<Job, 'runTurn'>): Promise<void> {
  module.get(Worker).add({ name: 'a_job', role: 'janitor', afterErrorMs: 1000, ...job });
  await module.init();
}

async function runs(outcome: 'success' | 'failed'): Promise<number> {
  const { values } = (await metrics.registry.getSingleMetric('cycles_maintenance_runs_total')?.get()) as {
    values: { value: number; labels: Record<string, string> }[];
  };
  return values.find(({ labels }) => labels['outcome'] === outcome)?.value ?? 0;
}

describe('a job', () => {
  test('sleeps until the instant that its last turn named, and never overlaps itself', async () => {
    const began: number[] = [];
    const startedAt = performance.now();
    await start({
      startsInMs: 50,
      runTurn: async () => {
        began.push(Math.round(performance.now() - startedAt));
        await new Promise((done) => setTimeout(done, 300));
        return { sleepMs: 100 };
      },
    });
    await jest.advanceTimersByTimeAsync(1000);
    expect(began).toEqual([50, 450, 850]);
    expect(scheduler.getTimeouts()).toEqual([]);
    await jest.advanceTimersByTimeAsync(200);
    expect(scheduler.getTimeouts()).toEqual(['a_job']);
    await module.close();
  });

  test('is refused after the start, because it would never run', async () => {
    const job = { runTurn: () => Promise.resolve({ sleepMs: 100 }) };
    await start(job);
    await expect(start(job)).rejects.toThrow('the job a_job was added after the start of the application');
    await module.close();
  });

  test('counts the turns that are runs, and tries again after a failed turn', async () => {
    let turns = 0;
    await start({
      runTurn: () => {
        turns += 1;
        if (turns === 2) {
          return Promise.reject(new Error('on purpose'));
        }
        return Promise.resolve({ sleepMs: 10, ...(turns === 1 ? {} : { outcome: 'success' as const }) });
      },
    });
    await jest.advanceTimersByTimeAsync(15);
    expect([turns, await runs('success'), await runs('failed')]).toEqual([2, 0, 1]);
    await jest.advanceTimersByTimeAsync(1000);
    expect([turns, await runs('success'), await runs('failed')]).toEqual([3, 1, 1]);
    await module.close();
  });

  test('logs a streak of failures when it begins and when it ends, an outage without a stack', async () => {
    const failures = [
      new StoreUnavailable('connection'),
      new StoreUnavailable('timeout'),
      new Error('on purpose'),
      new Error('on purpose'),
    ];
    await start({
      runTurn: () => {
        const failure = failures.shift();
        return failure === undefined ? Promise.resolve({ sleepMs: 1000 }) : Promise.reject(failure);
      },
    });
    await jest.advanceTimersByTimeAsync(6000);
    const failed = { level: 'warn', job: 'a_job', msg: 'a job failed; it will be retried' };
    expect(log).toMatchObject([
      { ...failed, reason: 'the store cannot be reached' },
      { ...failed, err: { message: 'on purpose' } },
      { level: 'warn', job: 'a_job', msg: 'a job works again', failures: 4, lasted_ms: 4000 },
    ]);
    expect([log[0]?.['err'], await runs('failed')]).toEqual([undefined, 4]);
    await module.close();
  });

  test('does not run where its role is off', async () => {
    let turns = 0;
    await start({ role: 'sweeper', runTurn: () => Promise.resolve({ sleepMs: (turns += 1) }) });
    await jest.advanceTimersByTimeAsync(100);
    expect([turns, scheduler.getTimeouts()]).toEqual([0, []]);
    await module.close();
  });
});

describe('the beat', () => {
  test('runs a job whose wake-up was lost, once', async () => {
    let turns = 0;
    await start({ startsInMs: 500, runTurn: () => Promise.resolve({ sleepMs: 500 + (turns += 1) }) });
    scheduler.deleteTimeout('a_job');
    await jest.advanceTimersByTimeAsync(999);
    expect(turns).toBe(0);
    await jest.advanceTimersByTimeAsync(1);
    expect(turns).toBe(1);
    await jest.advanceTimersByTimeAsync(501);
    expect(turns).toBe(2);
    await module.close();
  });

  test('wakes a job at its time, however long it slept', async () => {
    const began: number[] = [];
    const startedAt = performance.now();
    await start({
      runTurn: () => {
        began.push(Math.round(performance.now() - startedAt));
        return Promise.resolve({ sleepMs: 3250 });
      },
    });
    await jest.advanceTimersByTimeAsync(2900);
    expect([began, scheduler.getTimeouts()]).toEqual([[0], []]);
    await jest.advanceTimersByTimeAsync(200);
    expect(scheduler.getTimeouts()).toEqual(['a_job']);
    await jest.advanceTimersByTimeAsync(3500);
    expect(began).toEqual([0, 3250, 6500]);
    await module.close();
  });

  test('abandons a stuck turn and starts another one', async () => {
    const turns: Turn[] = [];
    let restarts = 0;
    await start({
      runTurn: (turn) => {
        turns.push(turn);
        return new Promise(() => undefined);
      },
      restarted: () => (restarts += 1),
    });
    await jest.advanceTimersByTimeAsync(5000);
    expect([turns.length, restarts, turns[0]?.goesOn()]).toEqual([1, 0, true]);
    await jest.advanceTimersByTimeAsync(15_000);
    expect([turns.length, restarts, turns[0]?.goesOn(), turns[1]?.goesOn()]).toEqual([2, 1, false, true]);
  });

  test('does not abandon a long turn that makes progress, or a long sleep', async () => {
    let restarts = 0;
    let turns = 0;
    await start({
      runTurn: async (turn) => {
        turns += 1;
        for (let second = 0; second < 30; second += 1) {
          await new Promise((done) => setTimeout(done, 1000));
          turn.goesOn();
        }
        return { sleepMs: 60_000 };
      },
      restarted: () => (restarts += 1),
    });
    await jest.advanceTimersByTimeAsync(85_000);
    expect([turns, restarts]).toEqual([1, 0]);
    await module.close();
  });
});

test('a shutdown ends the current turn, waits for it and for what the job drains, and starts no other', async () => {
  const seen: string[] = [];
  await start({
    runTurn: async (turn) => {
      while (turn.goesOn()) {
        await new Promise((done) => setTimeout(done, 100));
      }
      seen.push('ended');
      return { sleepMs: 0 };
    },
    stopping: () => seen.push('stopping'),
    drain: () => Promise.resolve(seen.push('drained')).then(() => undefined),
  });
  await jest.advanceTimersByTimeAsync(250);
  const stopped = module.close();
  await jest.advanceTimersByTimeAsync(100);
  await stopped;
  await jest.advanceTimersByTimeAsync(1000);
  expect(seen).toEqual(['stopping', 'ended', 'drained']);
  expect([scheduler.getTimeouts(), scheduler.getIntervals()]).toEqual([[], []]);
});
