import { mkdtempSync, readFileSync, rmSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { RedisService } from '../../src/redis/index.js';
import { FileQueryFailed, QueryProcess } from '../../src/usage/query-process.js';
import { UsageService } from '../../src/usage/usage.service.js';
import { publishCharges } from '../support/charge-files.js';
import { eventually } from '../support/eventually.js';
import { type Answer, expectRefusal, expectStatus, Holdfast, type Json } from '../support/holdfast.js';

let folder: string;
let file: string;
let holdfast: Holdfast;
let service: UsageService;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'usage-'));
  holdfast = await Holdfast.start({ ARCHIVE_DIR: join(folder, 'archive') });
  service = holdfast.app.get(UsageService);
  [file = ''] = await publishCharges(
    join(folder, 'archive'),
    [{ recorded_at: Date.parse('2026-01-02T00:00:00Z'), charged: 5 }],
    holdfast.app.get(RedisService).deployment.id,
  );
});
afterEach(() => {
  jest.restoreAllMocks();
});
afterAll(async () => {
  await holdfast.stop();
  rmSync(folder, { recursive: true });
});

const report = (more = ''): Promise<Answer> =>
  holdfast.admin('GET', `/ops/usage?from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z${more}`);

const counted = (outcome: string): Promise<number> =>
  holdfast.metric('holdfast_usage_queries_total', { outcome });

/** Whether another report can still be had, from another process if need be. */
async function expectReport(): Promise<void> {
  expect(expectStatus(await report(), 200).totals).toMatchObject([{ charged: 5 }]);
}

describe('a report of usage', () => {
  test('is 501 where DuckDB is not installed, and says what to install', async () => {
    jest
      .spyOn(QueryProcess.prototype, 'run')
      .mockRejectedValue(new FileQueryFailed('missing', 'the package is not installed'));
    const before = await counted('missing');
    const { message, details } = expectRefusal(await report(), 501, 'INTERNAL_ERROR');
    expect(message).toContain('install the package @duckdb/node-api');
    expect(details).toEqual({ reason: 'missing' });
    expect(await counted('missing')).toBe(before + 1);
  });

  test('is 503 if its process dies, and the next report has another one', async () => {
    await expectReport();
    const pid = service.pid as number;
    const before = await counted('died');
    process.kill(pid, 'SIGSTOP');
    const run = jest.spyOn(QueryProcess.prototype, 'run');
    const answer = report();
    await eventually('the report runs', () => run.mock.calls.length > 0);
    process.kill(pid, 'SIGKILL');
    expect(expectRefusal(await answer, 503, 'INTERNAL_ERROR').details).toEqual({ reason: 'died' });
    expect(await counted('died')).toBe(before + 1);
    await expectReport();
    expect(service.pid).not.toBe(pid);
  });

  test('is 503 if it takes too long', async () => {
    const hasty = await Holdfast.start({ ARCHIVE_DIR: join(folder, 'archive'), usageTimeoutMs: 1 });
    try {
      const { message, details } = expectRefusal(
        await hasty.admin('GET', '/ops/usage?from=0'),
        400,
        'INVALID_REQUEST',
      );
      expect([message, details]).toEqual([expect.stringContaining('3660 days'), { field: 'from' }]);
      const answer = await hasty.admin('GET', '/ops/usage?from=2026-01-01T00:00:00Z');
      expect(expectRefusal(answer, 503, 'INTERNAL_ERROR').details).toEqual({ reason: 'timeout' });
      expect(await hasty.metric('holdfast_usage_queries_total', { outcome: 'timeout' })).toBe(1);
    } finally {
      await hasty.stop();
    }
  });

  test('is refused if it needs more memory than it may have', async () => {
    jest
      .spyOn(QueryProcess.prototype, 'run')
      .mockRejectedValue(new FileQueryFailed('refused', 'Out of Memory Error: failed to allocate'));
    const { message } = expectRefusal(await report(), 400, 'INVALID_REQUEST');
    expect(message).toContain('shorter span or fewer groups');
  });

  test('is 503 if what does not fit into memory cannot be written', async () => {
    const why = 'IO Error: Failed to create directory "/archive/.spill-1234567890ab": Read-only file system';
    jest.spyOn(QueryProcess.prototype, 'run').mockRejectedValue(new FileQueryFailed('refused', why));
    const { message } = expectRefusal(await report(), 503, 'INTERNAL_ERROR');
    expect(message).toContain('could not be written to the disk of the archive');
  });

  test('names a damaged and a cut file as a gap, and has the rows of the others', async () => {
    const content = readFileSync(file);
    const gap = {
      from_ms: Date.parse('2026-01-02T00:00:00Z'),
      to_ms: Date.parse('2026-01-03T00:00:00Z'),
      file: 'published/day=2026-01-02/charges.parquet',
    };
    for (let offset = 0; offset < content.length; offset += Math.ceil(content.length / 20)) {
      const changed = Buffer.from(content);
      changed[offset] = (changed[offset] as number) ^ 0xff;
      writeFileSync(file, changed);
      expect(expectStatus(await report(), 200)).toMatchObject({
        rows: [],
        gaps: [{ ...gap, why: offset >= content.length - 4 ? 'CUT' : 'DAMAGED' }],
      });
    }
    truncateSync(file, content.length - 10);
    expect(expectStatus(await report(), 200)).toMatchObject({ rows: [], gaps: [{ ...gap, why: 'CUT' }] });
    writeFileSync(file, content);
    await expectReport();
  });

  test('judges a file again that DuckDB refuses, and is 503 if it is as it was written', async () => {
    const refused = new FileQueryFailed('refused', 'Invalid Input Error: no magic bytes');
    const run = jest.spyOn(QueryProcess.prototype, 'run').mockRejectedValue(refused);
    const before = await counted('refused');
    expect(expectRefusal(await report(), 503, 'INTERNAL_ERROR').details).toEqual({ reason: 'refused' });
    expect(run).toHaveBeenCalledTimes(2);
    expect(await counted('refused')).toBe(before + 1);

    // As a disk loses bits, the time of the file stays.
    const [content, then] = [readFileSync(file), new Date('2026-01-03T00:00:00Z')];
    utimesSync(file, then, then);
    run.mockRestore();
    await expectReport();
    jest.spyOn(QueryProcess.prototype, 'run').mockImplementationOnce(() => {
      const changed = Buffer.from(content);
      changed[50] = (changed[50] as number) ^ 1;
      writeFileSync(file, changed);
      utimesSync(file, then, then);
      return Promise.reject(refused);
    });
    expect(expectStatus(await report(), 200)).toMatchObject({ rows: [], gaps: [{ why: 'DAMAGED' }] });
    writeFileSync(file, content);
    await expectReport();
  });

  test('reads again if a file went while it was to be read', async () => {
    const run = jest.spyOn(QueryProcess.prototype, 'run');
    run.mockRejectedValueOnce(
      new FileQueryFailed('refused', 'IO Error: No files found that match the pattern'),
    );
    await expectReport();
    expect(run).toHaveBeenCalledTimes(2);
  });
});

describe('reports of usage', () => {
  const never = (): AbortSignal => new AbortController().signal;

  test('wait for their turn, tenant by tenant, and too many are refused', async () => {
    const end = await service.admit('a', never());
    const order: string[] = [];
    const waiting = [...Array.from({ length: 16 }, () => 'a'), 'b'].map(async (owner) => {
      const over = await service.admit(owner, never());
      order.push(owner);
      over();
    });
    const before = await counted('busy');
    await expect(service.admit('a', never())).rejects.toMatchObject({ code: 'LIMIT_EXCEEDED' });
    expect(await counted('busy')).toBe(before + 1);
    end();
    await Promise.all(waiting);
    expect(order.slice(0, 2).sort()).toEqual(['a', 'b']);
    expect(order).toHaveLength(17);
  });

  test('are stopped when their client leaves, and the next one is answered', async () => {
    await expectReport();
    process.kill(service.pid as number, 'SIGSTOP');
    const before = await counted('gone');
    const leaving = new AbortController();
    const run = jest.spyOn(QueryProcess.prototype, 'run');
    const left = fetch(`${holdfast.url}/ops/usage?from=2026-01-01T00:00:00Z`, {
      headers: { 'x-admin-api-key': 'test-admin-key-0123456789' },
      signal: leaving.signal,
    });
    await eventually('the report runs', () => run.mock.calls.length > 0);
    leaving.abort();
    await expect(left).rejects.toThrow();
    await eventually('it is stopped', async () => (await counted('gone')) === before + 1);
    await expectReport();
    // Nobody was refused anything: a page was left.
    const log = await holdfast.admin('GET', '/ops/requests?operation=getUsageOfAll&status=400');
    const messages = (expectStatus(log, 200).requests as Json[]).map(({ message }) => message as string);
    expect(messages.filter((message) => message.includes('closed the connection'))).toEqual([]);
  });
});
