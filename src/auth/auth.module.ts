import { Module } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { MetricsModule } from '../metrics/index.js';
import { RateLimitsModule } from '../rate-limits/index.js';
import { AccessGuard } from './access.guard.js';
import { AdminKey } from './admin-key.js';
import { ApiKeyVerifier } from './api-key-verifier.js';
import { AuthMetrics } from './auth.metrics.js';
import { CallerFinder } from './caller-finder.js';
import { KeyRevocations } from './key-revocations.js';

@Module({
  imports: [MetricsModule, RateLimitsModule],
  providers: [
    AdminKey,
    AuthMetrics,
    ApiKeyVerifier,
    CallerFinder,
    KeyRevocations,
    AccessGuard,
    { provide: APP_GUARD, useExisting: AccessGuard },
  ],
  exports: [AdminKey, ApiKeyVerifier, CallerFinder],
})
export class AuthModule {}
