import { type CanActivate, type ExecutionContext, Inject, Injectable, Module } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  AdminKey,
  ApiKeyVerifier,
  AuthMetrics,
  KeyRevocations,
  RateLimits,
  sourceOf,
  WindowClock,
} from '../../auth/index.js';
import { MetricsModule } from '../../telemetry/index.js';
import { AccessGuard, CallerFinder } from './access.guard.js';

/** Limits, by source address, what anybody may ask for without a key. Not for health: an orchestrator must always get an answer. */
@Injectable()
export class PublicRateLimit implements CanActivate {
  constructor(@Inject(RateLimits) private readonly limits: RateLimits) {}

  canActivate(context: ExecutionContext): true {
    const http = context.switchToHttp();
    this.limits.public?.admit(
      sourceOf(http.getRequest<FastifyRequest>().ip),
      http.getResponse<FastifyReply>(),
    );
    return true;
  }
}

@Module({
  imports: [MetricsModule],
  providers: [WindowClock, RateLimits, PublicRateLimit],
  exports: [RateLimits, PublicRateLimit],
})
export class RateLimitsModule {}

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
