import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { MetricsRegistry } from '../metrics/index.js';
import { RateLimit } from './rate-limit.js';
import { WindowClock } from './window-clock.js';

/** The limits that the operator asked for; one that is off does not exist, and costs nothing. */
@Injectable()
export class RateLimits {
  /** By API key: every request on the runtime plane whose key is valid, whatever becomes of it. */
  readonly perKey: RateLimit | undefined;
  /** By source address and kind of key: authentications that failed. A valid key is let through whatever the count. */
  readonly authFailures: RateLimit | undefined;
  /** By source address: documents that everybody may read and that cost something. */
  readonly public: RateLimit | undefined;

  constructor(
    @Inject(CONFIG) config: HoldfastConfig,
    @Inject(MetricsRegistry) metrics: MetricsRegistry,
    @Inject(WindowClock) clock: WindowClock,
  ) {
    const refusals = metrics.counter({
      name: 'holdfast_rate_limited_total',
      help: 'Requests that this instance answered with 429, by the limit that they exceeded.',
      labels: ['limit'],
    });
    const limit = (name: string, perMinute: number, what: string): RateLimit | undefined =>
      perMinute === 0
        ? undefined
        : new RateLimit(perMinute, what, clock, () => {
            refusals.inc({ limit: name });
          });
    this.perKey = limit('api_key', config.rateLimitPerKeyPerMinute, 'requests with this API key');
    this.authFailures = limit(
      'auth_failures',
      config.rateLimitAuthFailuresPerMinute,
      'failed authentications from this address',
    );
    this.public = limit('public', config.rateLimitPublicPerMinute, 'requests from this address');
  }
}
