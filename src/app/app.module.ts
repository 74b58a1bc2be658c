import { type DynamicModule, Module, type Type } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { ArchiveModule } from '../archive/index.js';
import { AuditModule } from '../audit/index.js';
import { TestClockModule } from '../clock/index.js';
import { ConfigModule, type HoldfastConfig } from '../config/index.js';
import { EventLogModule } from '../events/index.js';
import { EvidenceModule } from '../evidence/index.js';
import { ExpiryModule } from '../expiry/index.js';
import { GovernanceModule } from '../governance/index.js';
import { ErrorFilter, HttpModule, RouteTable } from '../http/index.js';
import { LimitsModule } from '../limits/index.js';
import { ConsoleModule } from '../console/index.js';
import { OverviewModule } from '../overview/index.js';
import { RedisModule } from '../redis/index.js';
import {
  BatchModule,
  CommitModule,
  ExtendModule,
  ReleaseModule,
  ReservationsModule,
  ReserveModule,
} from '../reservations/index.js';
import { RetentionModule } from '../retention/index.js';
import { SpikesModule } from '../spikes/index.js';
import { type Logger, TelemetryModule } from '../telemetry/index.js';
import { UsageModule } from '../usage/index.js';
import { WebhooksModule } from '../webhooks/index.js';

export type AppModuleImport = Type<unknown> | DynamicModule;

export interface AppParts {
  readonly logger: Logger;
  readonly routes: RouteTable;
  /** Additional modules, with which tests mount controllers of their own. */
  readonly modules?: readonly AppModuleImport[];
}

/** The whole service: each capability once. */
@Module({})
export class AppModule {
  static forRoot(config: HoldfastConfig, { logger, routes, modules = [] }: AppParts): DynamicModule {
    return {
      module: AppModule,
      imports: [
        ConfigModule.forRoot(config),
        TelemetryModule.forRoot(logger),
        RedisModule,
        HttpModule,
        LimitsModule,
        ExpiryModule,
        GovernanceModule,
        ...(config.testClock ? [TestClockModule] : []),
        EvidenceModule,
        ReservationsModule,
        ReserveModule,
        CommitModule,
        ReleaseModule,
        ExtendModule,
        BatchModule,
        EventLogModule,
        WebhooksModule,
        SpikesModule,
        AuditModule,
        RetentionModule,
        UsageModule,
        ArchiveModule,
        OverviewModule,
        ConsoleModule,
        ...modules,
      ],
      providers: [
        { provide: RouteTable, useValue: routes },
        { provide: APP_FILTER, useClass: ErrorFilter },
      ],
    };
  }
}
