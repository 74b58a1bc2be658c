import { Inject, Injectable } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { MetricsRegistry } from './metrics-registry.js';

/** Upper bounds of the buckets in seconds, from half a millisecond to the 10 s within which a shutdown must end. */
const BOUNDS_S = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const EVENT_STREAM = 'text/event-stream';
const NAME = 'http_server_requests_seconds';
const HELP = 'Duration of HTTP requests, by route template.';
/** All requests without a route share one series. Otherwise, a scanner could create any number of them. */
const NO_ROUTE = 'UNKNOWN';

declare module 'fastify' {
  interface FastifyRequest {
    /** How long the client let it wait for something other than this service. */
    waitedMs?: number;
  }
}

interface Series {
  readonly labels: Readonly<Record<string, string>>;
  /** Observations per bucket, not cumulative. The last bucket holds those above all bounds. */
  readonly counts: number[];
  sumS: number;
}

/**
 * The histogram of request durations. It keeps its own counts and exports them at each scrape, because `observe` of prom-client
 * costs more than everything else that is recorded for a request.
 */
@Injectable()
export class RequestMetrics {
  private readonly series = new Map<string, Series>();

  constructor(@Inject(MetricsRegistry) metrics: MetricsRegistry) {
    // The registry needs only this shape, although its type asks for a Metric.
    metrics.registry.registerMetric({
      name: NAME,
      help: HELP,
      aggregator: 'sum',
      get: () => Promise.resolve(this.export()),
      reset: () => {
        this.series.clear();
      },
    } as unknown as Parameters<typeof metrics.registry.registerMetric>[0]);
  }

  observe(request: FastifyRequest, reply: FastifyReply): void {
    const seconds = (reply.elapsedTime - (request.waitedMs ?? 0)) / 1000;
    if (reply.getHeader('content-type') === EVENT_STREAM) {
      // A stream lasts as long as its viewer watches, which says nothing about response times.
      return;
    }
    const uri = request.is404 ? NO_ROUTE : (request.routeOptions.url ?? NO_ROUTE);
    const series = this.seriesOf(uri, request.method, reply.statusCode);
    let bucket = 0;
    while (bucket < BOUNDS_S.length && seconds > (BOUNDS_S[bucket] as number)) {
      bucket += 1;
    }
    series.counts[bucket] = (series.counts[bucket] as number) + 1;
    series.sumS += seconds;
  }

  /** How many requests of a route took how long, by the upper bound of each bucket. The last one has none. */
  bucketsOf(method: string, uri: string): readonly { boundMs: number | undefined; requests: number }[] {
    const series = [...this.series.values()].filter(
      ({ labels }) => labels['uri'] === uri && labels['method'] === method,
    );
    return [...BOUNDS_S, undefined].map((bound, index) => ({
      boundMs: bound === undefined ? undefined : bound * 1000,
      requests: series.reduce((sum, { counts }) => sum + (counts[index] as number), 0),
    }));
  }

  private seriesOf(uri: string, method: string, status: number): Series {
    const key = `${method} ${status} ${uri}`;
    let series = this.series.get(key);
    if (series === undefined) {
      const labels = { uri, method, status: String(status), outcome: outcomeOf(status) };
      series = { labels, counts: new Array<number>(BOUNDS_S.length + 1).fill(0), sumS: 0 };
      this.series.set(key, series);
    }
    return series;
  }

  private export(): object {
    const values: object[] = [];
    for (const { labels, counts, sumS } of this.series.values()) {
      let total = 0;
      for (const [index, count] of counts.entries()) {
        total += count;
        values.push({
          metricName: `${NAME}_bucket`,
          labels: { ...labels, le: BOUNDS_S[index] ?? '+Inf' },
          value: total,
        });
      }
      values.push({ metricName: `${NAME}_sum`, labels, value: sumS });
      values.push({ metricName: `${NAME}_count`, labels, value: total });
    }
    return { name: NAME, help: HELP, type: 'histogram', values, aggregator: 'sum' };
  }
}

const OUTCOMES: Readonly<Record<number, string>> = {
  1: 'INFORMATIONAL',
  2: 'SUCCESS',
  3: 'REDIRECTION',
  4: 'CLIENT_ERROR',
  5: 'SERVER_ERROR',
};

function outcomeOf(status: number): string {
  return OUTCOMES[Math.floor(status / 100)] ?? 'UNKNOWN';
}
