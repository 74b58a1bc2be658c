import { Module } from '@nestjs/common';
import { MetricsModule } from '../metrics/index.js';
import { PublicRateLimit } from './public-rate-limit.js';
import { RateLimits } from './rate-limits.js';
import { WindowClock } from './window-clock.js';

@Module({
  imports: [MetricsModule],
  providers: [WindowClock, RateLimits, PublicRateLimit],
  exports: [RateLimits, PublicRateLimit],
})
export class RateLimitsModule {}
