import { type DynamicModule, Module, type Type } from '@nestjs/common';
import { AuditLogModule, AuditModule, AuditTrailModule } from '../audit/index.js';
import { ConfigModule, type HoldfastConfig } from '../config/index.js';
import { EvidenceModule } from '../evidence/index.js';
import { EventLogModule } from '../events/index.js';
import { ExpiryModule } from '../expiry/index.js';
import { GovernanceModule } from '../governance/index.js';
import { AuthModule, HealthModule, HttpModule, type RouteTable } from '../http/index.js';
import { LimitsOpsModule } from '../limits/index.js';
import { OverviewModule } from '../overview/index.js';
import { OperatorsModule } from '../operators/index.js';
import { RedisModule } from '../redis/index.js';
import {
  BalancesModule,
  DecideModule,
  DirectDebitModule,
  ReservationsModule,
} from '../reservations/index.js';
import { SpikesModule } from '../spikes/index.js';
import { type Logger, TelemetryModule } from '../telemetry/index.js';
import { TestClockModule } from '../clock/index.js';
import { WebhooksModule } from '../webhooks/index.js';

export type AppModuleImport = Type<unknown> | DynamicModule;

export interface AppParts {
  readonly logger: Logger;
  readonly routes: RouteTable;
  /** Additional modules, with which tests mount controllers of their own. */
  readonly modules?: readonly AppModuleImport[];
}

@Module({})
export class AppModule {
  static forRoot(config: HoldfastConfig, { logger, routes, modules = [] }: AppParts): DynamicModule {
    return {
      module: AppModule,
      imports: [
        ConfigModule.forRoot(config),
        TelemetryModule.forRoot(logger),
        HealthModule,
        HttpModule.forRoot(routes),
        RedisModule,
        AuthModule,
        AuditTrailModule,
        AuditLogModule,
        GovernanceModule,
        ...(config.testClock ? [TestClockModule] : []),
        EvidenceModule,
        ReservationsModule,
        DecideModule,
        DirectDebitModule,
        BalancesModule,
        ExpiryModule,
        EventLogModule,
        AuditModule,
        WebhooksModule,
        SpikesModule,
        OverviewModule,
        LimitsOpsModule,
        OperatorsModule,
        ...modules,
      ],
    };
  }
}
