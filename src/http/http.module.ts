import { type DynamicModule, Module } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { MetricsModule } from '../telemetry/index.js';
import { RateLimitsModule } from './access/auth.module.js';
import { ErrorFilter, UnexpectedErrors } from './errors/error.filter.js';
import { HealthModule } from './health.module.js';
import { OpenApiDocument } from './openapi/document.js';
import { OpenApiController } from './openapi/openapi.controller.js';
import { RouteTable } from './route-table.js';

@Module({})
export class HttpModule {
  static forRoot(routes: RouteTable): DynamicModule {
    return {
      module: HttpModule,
      imports: [MetricsModule, HealthModule, RateLimitsModule],
      controllers: [OpenApiController],
      providers: [
        { provide: RouteTable, useValue: routes },
        { provide: APP_FILTER, useClass: ErrorFilter },
        UnexpectedErrors,
        OpenApiDocument,
      ],
      exports: [UnexpectedErrors],
    };
  }
}
