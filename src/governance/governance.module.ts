import { Module } from '@nestjs/common';
import { BulkActionsModule } from '../bulk/index.js';
import { ExpiryMetricsModule } from '../expiry/index.js';
import { AuthModule, RateLimitsModule } from '../http/index.js';
import { TenantLimitsModule } from '../limits/index.js';
import { ListingModule } from '../redis/index.js';
import { WorkerModule } from '../worker/index.js';
import { ActionKindsController, DeclaredKindsController } from './action-kinds/action-kinds.controller.js';
import { ActionKindsService } from './action-kinds/action-kinds.service.js';
import { KnownKindsModule } from './action-kinds/known-kinds.js';
import { QuotaCountersController } from './action-quotas/quota-counters.controller.js';
import { QuotaCountersService } from './action-quotas/quota-counters.service.js';
import { ApiKeysController } from './api-keys/api-keys.controller.js';
import { ApiKeysService } from './api-keys/api-keys.service.js';
import { BudgetBulkActionService } from './budgets/budget-bulk-action.service.js';
import { BudgetPeriodController, BudgetRecurrenceController } from './budgets/budget-period.controller.js';
import { BudgetWindowsController } from './budgets/budget-windows.controller.js';
import { BudgetRollovers } from './budgets/budget-rollovers.js';
import { BudgetsController } from './budgets/budgets.controller.js';
import { BudgetChangesService, BudgetsService } from './budgets/budgets.service.js';
import { FundingService } from './budgets/funding.service.js';
import { KeptOrders } from './budgets/budget-orders.js';
import { PeriodPlans } from './budgets/period-plans.js';
import { RecurrenceService } from './budgets/recurrence.service.js';
import { WindowsService } from './budgets/windows.service.js';
import { CredentialsController } from './credentials/credentials.controller.js';
import { CredentialsService } from './credentials/credentials.service.js';
import { PoliciesController } from './policies/policies.controller.js';
import { PoliciesService } from './policies/policies.service.js';
import { TenantBulkActionService } from './tenants/tenant-bulk-action.service.js';
import { TenantClosing, TenantClosingJanitor } from './tenants/tenant-closing.js';
import { ExpiryPolicyController, TenantsController } from './tenants/tenants.controller.js';
import { TenantsService } from './tenants/tenants.service.js';

@Module({
  imports: [KnownKindsModule, RateLimitsModule],
  controllers: [ActionKindsController, DeclaredKindsController],
  providers: [ActionKindsService],
})
export class ActionKindsModule {}

@Module({
  imports: [ListingModule],
  controllers: [QuotaCountersController],
  providers: [QuotaCountersService],
})
export class QuotaCountersModule {}

@Module({
  imports: [AuthModule, ListingModule, TenantLimitsModule],
  controllers: [ApiKeysController],
  providers: [ApiKeysService],
  exports: [ApiKeysService],
})
export class ApiKeysModule {}

@Module({
  imports: [BulkActionsModule, ExpiryMetricsModule, ListingModule, TenantLimitsModule, WorkerModule],
  controllers: [
    BudgetPeriodController,
    BudgetRecurrenceController,
    BudgetWindowsController,
    BudgetsController,
  ],
  providers: [
    BudgetsService,
    BudgetBulkActionService,
    BudgetChangesService,
    BudgetRollovers,
    FundingService,
    KeptOrders,
    PeriodPlans,
    RecurrenceService,
    WindowsService,
  ],
  exports: [BudgetRollovers, BudgetsService, FundingService],
})
export class BudgetsModule {}

@Module({ controllers: [CredentialsController], providers: [CredentialsService] })
export class CredentialsModule {}

@Module({
  imports: [KnownKindsModule, ListingModule, TenantLimitsModule],
  controllers: [PoliciesController],
  providers: [PoliciesService],
  exports: [PoliciesService],
})
export class PoliciesModule {}

@Module({
  imports: [ListingModule, ExpiryMetricsModule, WorkerModule, BulkActionsModule],
  controllers: [ExpiryPolicyController, TenantsController],
  providers: [TenantsService, TenantBulkActionService, TenantClosing, TenantClosingJanitor],
})
export class TenantsModule {}

/** The governance plane: tenants, API keys, budgets, policies and action kinds. */
@Module({
  imports: [
    TenantsModule,
    ApiKeysModule,
    BudgetsModule,
    CredentialsModule,
    PoliciesModule,
    ActionKindsModule,
    QuotaCountersModule,
  ],
})
export class GovernanceModule {}
