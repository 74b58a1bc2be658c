import { Module, type DynamicModule } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { HealthModule } from '../health/index.js';
import { MetricsModule } from '../metrics/index.js';
import { RateLimitsModule } from '../rate-limits/index.js';
import { ErrorFilter } from './error.filter.js';
import { OpenApiController } from './openapi.controller.js';
import { OpenApiDocument } from './openapi.js';
import { RouteTable } from './route-table.js';
import { UnexpectedErrors } from './unexpected-errors.js';

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
