import type { EventEmitter } from 'node:events';
import cluster, { type Worker } from 'node:cluster';
import { AggregatorRegistry, type Registry } from 'prom-client';
import type { Logger } from './logger.js';
import { MetricsRegistry } from './metrics-registry.js';
import type { Instruments, MetricsTable } from './metrics-table.js';

/** How long the parent waits for a worker's report, and a worker for the sum. Prometheus gives a scrape 10 s. */
const REPORT_TIMEOUT_MS = 3000;
const SCRAPE_TIMEOUT_MS = 5000;

type Report = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/** A worker asks its parent for the metrics of all workers; the parent asks each worker for its own. */
type MetricsRequest = { readonly kind: 'scrape' | 'report'; readonly id: number };
type MetricsReply =
  | { readonly kind: 'scraped'; readonly id: number; readonly text: string }
  | { readonly kind: 'reported'; readonly id: number; readonly report: Report };

/** Requests that wait for a reply from another process. */
class PendingRequests<T> {
  private readonly waiting = new Map<number, (answer: T | undefined) => void>();
  private lastId = 0;

  /** @returns undefined if no answer came in time */
  async ask(send: (id: number) => void, timeoutMs: number): Promise<T | undefined> {
    this.lastId += 1;
    const id = this.lastId;
    let timer: NodeJS.Timeout | undefined;
    const answer = await new Promise<T | undefined>((done) => {
      timer = setTimeout(done, timeoutMs, undefined);
      this.waiting.set(id, done);
      send(id);
    });
    clearTimeout(timer);
    this.waiting.delete(id);
    return answer;
  }

  answer(id: number, answer: T): void {
    this.waiting.get(id)?.(answer);
  }
}

const scrapes = new PendingRequests<string>();

/** The metrics of this process. If it is a worker, the parent's answer: the metrics of all workers. */
export async function exposition(registry: Registry): Promise<string> {
  if (cluster.worker === undefined) {
    return registry.metrics();
  }
  const text = await scrapes.ask((id) => sendToParent({ kind: 'scrape', id }), SCRAPE_TIMEOUT_MS);
  if (text === undefined) {
    throw new Error('the parent process did not collect the metrics in time');
  }
  return text;
}

/**
 * Lets a worker report its metrics to its parent, and receive the sum.
 * @param parent where the parent's messages arrive
 */
export function joinGroupMetrics(registry: Registry, logger: Logger, parent: EventEmitter = process): void {
  parent.on('message', (message: MetricsRequest | MetricsReply) => {
    if (message.kind === 'scraped') {
      scrapes.answer(message.id, message.text);
    } else if (message.kind === 'report') {
      registry.getMetricsAsJSON().then(
        (report) => sendToParent({ kind: 'reported', id: message.id, report }),
        // The parent counts the report that it misses.
        (error: unknown) => logger.error({ err: error }, 'a worker cannot read its own metrics'),
      );
    }
  });
}

function sendToParent(message: MetricsRequest | MetricsReply): void {
  process.send?.(message, undefined, undefined, ignoreClosedChannel);
}

/** The process that asked gets no answer in time. */
function ignoreClosedChannel(): void {}

const GROUP_METRICS = {
  replaced: {
    name: 'holdfast_workers_replaced_total',
    help: 'Worker processes that were replaced, because they ended by themselves or hung.',
    labels: ['why'],
  },
  missed: {
    name: 'holdfast_worker_reports_missed_total',
    help: 'Times that a worker did not report its metrics in time. Its last known counts stand in for them.',
  },
  serving: {
    name: 'holdfast_workers_serving',
    help: 'Worker processes that answer requests.',
  },
  started: {
    name: 'process_start_time_seconds',
    help: 'Start time of the parent process since unix epoch in seconds.',
    acrossWorkers: 'min',
  },
} as const satisfies MetricsTable;

/**
 * The metrics of a group of workers, in its parent. Counters and histograms are summed, and what a dead worker had counted stays in the
 * sum: a counter never falls. Lost is only what it counted after the last scrape. Gauges follow `acrossWorkers` of their metric.
 */
export class GroupMetrics {
  /** The parent's own metrics. */
  readonly metrics = new MetricsRegistry({ metricsTenantLabel: true });
  readonly registry = this.metrics.registry;
  private readonly counts: Instruments<typeof GROUP_METRICS>;
  private readonly reports = new PendingRequests<Report>();
  private readonly lastReports = new Map<Worker, Report>();
  private departed: object[] = [];

  /** @param serving the workers that answer requests now */
  constructor(
    private readonly serving: () => readonly Worker[],
    private readonly logger: Logger,
  ) {
    this.counts = this.metrics.of(GROUP_METRICS);
    ['ended', 'hung'].forEach((why) => this.counts.replaced.inc({ why }, 0));
    this.counts.serving.readFrom(() => serving().length);
    // eslint-disable-next-line no-restricted-syntax -- the time of its host, as every exporter's
    this.counts.started.set(performance.timeOrigin / 1000);
  }

  workerReplaced(why: 'ended' | 'hung'): void {
    this.counts.replaced.inc({ why });
  }

  /** Must be called for each worker when it is started. */
  follow(worker: Worker): void {
    worker.on('message', (message: MetricsRequest | MetricsReply) => {
      if (message.kind === 'scrape') {
        this.text().then(
          (text) => send(worker, { kind: 'scraped', id: message.id, text }),
          // The worker fails the scrape when its time is over.
          (error: unknown) =>
            this.logger.error({ err: error }, 'the metrics of the workers cannot be added up'),
        );
      } else if (message.kind === 'reported' && !worker.isDead()) {
        this.lastReports.set(worker, message.report);
        this.reports.answer(message.id, message.report);
      }
    });
    worker.once('exit', () => {
      const last = this.lastReports.get(worker);
      if (this.lastReports.delete(worker) && last !== undefined) {
        this.departed = AggregatorRegistry.aggregate([
          this.departed,
          last.filter(isCumulative),
        ]).getMetricsAsArray();
      }
    });
  }

  /** All metrics in the text format of Prometheus. */
  async text(): Promise<string> {
    const fresh = new Set<Worker>();
    await Promise.all(
      this.serving().map(async (worker) => {
        const report = await this.reports.ask(
          (id) => send(worker, { kind: 'report', id }),
          REPORT_TIMEOUT_MS,
        );
        if (report !== undefined) {
          fresh.add(worker);
        } else if (!worker.isDead()) {
          this.counts.missed.inc();
          this.logger.warn(
            { pid: worker.process.pid, timeout_ms: REPORT_TIMEOUT_MS },
            'a worker did not report its metrics in time; its own log may say why',
          );
        }
      }),
    );
    const own = await this.registry.getMetricsAsJSON();
    // Without a pause from here on: a worker's report must count once, as its own or among the departed.
    const reports = [...this.lastReports].map(([worker, report]) =>
      fresh.has(worker) ? report : report.filter(isCumulative),
    );
    return AggregatorRegistry.aggregate([own, this.departed, ...reports]).metrics();
  }
}

function isCumulative({ type }: Report[number]): boolean {
  // At run time this is the text that the exposition format has, whatever the declared type.
  return ['counter', 'histogram'].includes(String(type));
}

function send(worker: Worker, message: MetricsRequest | MetricsReply): void {
  worker.send(message, ignoreClosedChannel);
}
