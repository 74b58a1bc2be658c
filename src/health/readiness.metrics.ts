import { Injectable } from '@nestjs/common';
import { MetricsRegistry } from '../metrics/index.js';
import { ReadinessCheck } from './readiness.js';

/** Readiness for those who scrape and do not probe. Each scrape has a fresh look at the store, its memory included. */
@Injectable()
export class ReadinessMetrics {
  constructor(metrics: MetricsRegistry, readiness: ReadinessCheck) {
    metrics.observedGauge({ name: 'holdfast_ready', help: '1 while readiness is green.' }, async () =>
      (await readiness.check()).ready ? 1 : 0,
    );
    metrics.observedGauge(
      {
        name: 'holdfast_redis_up',
        help: '1 while Redis answers this instance, does not evict and is not full.',
      },
      async () => {
        const { details } = await readiness.check();
        return details['redis']?.status === 'up' ? 1 : 0;
      },
    );
  }
}
