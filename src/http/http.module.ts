import { type DynamicModule, Module } from '@nestjs/common';
import { APP_FILTER, APP_GUARD } from '@nestjs/core';
import { TerminusModule } from '@nestjs/terminus';
import {
  AdminKey,
  ApiKeyVerifier,
  AuthAttempts,
  ConsoleSessions,
  KeyRevocations,
  RateLimits,
  WindowClock,
} from '../auth/index.js';
import { AccessGuard, CallerFinder, PublicRateLimit } from './access.guard.js';
import { KnownParameters } from './known-parameters.guard.js';
import { ErrorFilter, UnexpectedErrors } from './errors/error.filter.js';
import { HealthController, ReadinessCheck, StoreHealth } from './health.controller.js';
import { OpenApiDocument } from './openapi/document.js';
import { OpenApiController } from './openapi/openapi.controller.js';
import { RouteTable } from './route-table.js';
import { SessionAccess } from './session-access.js';

@Module({
  providers: [WindowClock, RateLimits, PublicRateLimit],
  exports: [RateLimits, PublicRateLimit],
})
export class RateLimitsModule {}

@Module({
  imports: [RateLimitsModule],
  providers: [
    AdminKey,
    AuthAttempts,
    ApiKeyVerifier,
    CallerFinder,
    ConsoleSessions,
    KeyRevocations,
    SessionAccess,
    AccessGuard,
    { provide: APP_GUARD, useExisting: AccessGuard },
    // Behind the access guard, so that only operators learn what there is.
    { provide: APP_GUARD, useClass: KnownParameters },
  ],
  exports: [AdminKey, ApiKeyVerifier, AuthAttempts, CallerFinder, ConsoleSessions, SessionAccess],
})
export class AuthModule {}

@Module({
  // Terminus does not log red readiness: a line per probe would be noise, and metrics show it.
  imports: [TerminusModule.forRoot({ logger: false })],
  controllers: [HealthController],
  providers: [ReadinessCheck, StoreHealth, UnexpectedErrors],
  exports: [ReadinessCheck, UnexpectedErrors],
})
export class HealthModule {}

@Module({})
export class HttpModule {
  static forRoot(routes: RouteTable): DynamicModule {
    return {
      module: HttpModule,
      imports: [HealthModule, RateLimitsModule],
      controllers: [OpenApiController],
      providers: [
        { provide: RouteTable, useValue: routes },
        { provide: APP_FILTER, useClass: ErrorFilter },
        OpenApiDocument,
      ],
    };
  }
}
