import { Inject, Injectable } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { MetricsRegistry } from './metrics-registry.js';

/** Seconds, from half a millisecond to the ten seconds in which a shutdown must be over. */
const BOUNDS_S = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const NAME = 'http_server_requests_seconds';
const HELP = 'Duration of HTTP requests, by route template.';
/** Requests that no route answered share one series, or a scanner could make as many as it likes. */
const NO_ROUTE = 'UNKNOWN';

interface Series {
  readonly labels: Readonly<Record<string, string>>;
  /** Observations by bucket, not cumulated; the last one is above all bounds. */
  readonly counts: number[];
  sumS: number;
}

/**
 * The histogram of all requests. It keeps its own numbers and turns them into Prometheus' form when somebody scrapes,
 * because prom-client's observe costs more than the rest of a request's bookkeeping.
 */
@Injectable()
export class RequestMetrics {
  private readonly series = new Map<string, Series>();

  constructor(@Inject(MetricsRegistry) metrics: MetricsRegistry) {
    // The registry asks for nothing but this shape; its type names the class.
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
    const seconds = reply.elapsedTime / 1000;
    const uri = request.is404 ? NO_ROUTE : (request.routeOptions.url ?? NO_ROUTE);
    const series = this.seriesOf(uri, request.method, reply.statusCode);
    let bucket = 0;
    while (bucket < BOUNDS_S.length && seconds > (BOUNDS_S[bucket] as number)) {
      bucket += 1;
    }
    series.counts[bucket] = (series.counts[bucket] as number) + 1;
    series.sumS += seconds;
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
