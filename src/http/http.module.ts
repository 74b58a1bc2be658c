import { Module } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { TerminusModule } from '@nestjs/terminus';
import { AuthModule } from '../auth/index.js';
import { AccessGuard, CallerFinder } from './access.guard.js';
import { ErrorAnswers, UnexpectedErrors } from './errors/error.filter.js';
import { HealthController, ReadinessCheck, StoreHealth } from './health.controller.js';
import { KnownParameters } from './known-parameters.guard.js';
import { MetricsController } from './metrics.controller.js';
import { OpenApiDocument } from './openapi/document.js';
import { OpenApiController } from './openapi/openapi.controller.js';
import { OperationAccess } from './operation-access.js';
import { SessionAccess } from './session-access.js';

@Module({
  // Terminus does not log red readiness: a line per probe would be noise, and metrics show it.
  imports: [AuthModule, TerminusModule.forRoot({ logger: false })],
  controllers: [HealthController, MetricsController, OpenApiController],
  providers: [
    CallerFinder,
    ErrorAnswers,
    OpenApiDocument,
    OperationAccess,
    ReadinessCheck,
    SessionAccess,
    StoreHealth,
    UnexpectedErrors,
    { provide: APP_GUARD, useClass: AccessGuard },
    // Behind the access guard, so that only operators learn what there is.
    { provide: APP_GUARD, useClass: KnownParameters },
  ],
  exports: [CallerFinder, ErrorAnswers, OperationAccess, ReadinessCheck, SessionAccess, UnexpectedErrors],
})
export class HttpModule {}
