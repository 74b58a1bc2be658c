import { Module, type DynamicModule, type Type } from '@nestjs/common';
import { AuditModule } from './audit/index.js';
import { AuditTrailModule } from './audit-trail/index.js';
import { AuthModule } from './auth/index.js';
import { ConfigModule, type HoldfastConfig } from './config/index.js';
import { BalancesModule } from './balances/index.js';
import { DecideModule } from './decide/index.js';
import { DirectDebitModule } from './direct-debit/index.js';
import { EventLogModule } from './event-log/index.js';
import { ExpiryModule } from './expiry/index.js';
import { GovernanceModule } from './governance/index.js';
import { HealthModule } from './health/index.js';
import { HttpModule } from './http/index.js';
import type { RouteTable } from './http/route-table.js';
import { LoggingModule, type Logger } from './logging/index.js';
import { MetricsModule } from './metrics/index.js';
import { RedisModule } from './redis/index.js';
import { ReservationsModule } from './reservations/index.js';
import { LimitsOpsModule } from './tenant-limits/limits-ops.module.js';
import { WebhooksModule } from './webhooks/index.js';

export type AppModuleImport = Type<unknown> | DynamicModule;

export interface AppParts {
  readonly logger: Logger;
  readonly routes: RouteTable;
  /** Modules beside the product's own; tests mount their controllers with them. */
  readonly modules?: readonly AppModuleImport[];
}

@Module({})
export class AppModule {
  static forRoot(config: HoldfastConfig, { logger, routes, modules = [] }: AppParts): DynamicModule {
    return {
      module: AppModule,
      imports: [
        ConfigModule.forRoot(config),
        LoggingModule.forRoot(logger),
        MetricsModule,
        HealthModule,
        HttpModule.forRoot(routes),
        RedisModule,
        AuthModule,
        AuditTrailModule,
        GovernanceModule,
        ReservationsModule,
        DecideModule,
        DirectDebitModule,
        BalancesModule,
        ExpiryModule,
        EventLogModule,
        AuditModule,
        WebhooksModule,
        LimitsOpsModule,
        ...modules,
      ],
    };
  }
}
