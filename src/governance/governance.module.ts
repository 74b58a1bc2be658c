import { Module } from '@nestjs/common';
import { AuthModule } from '../auth/index.js';
import { BulkActionsModule } from '../bulk/index.js';
import { ExpiryModule } from '../expiry/index.js';
import { HttpModule } from '../http/index.js';
import { LimitsModule } from '../limits/index.js';
import { WorkerModule } from '../worker/index.js';
import { ActionKindsController, DeclaredKindsController } from './action-kinds/action-kinds.controller.js';
import { ActionKindsService } from './action-kinds/action-kinds.service.js';
import { KnownKinds } from './action-kinds/known-kinds.js';
import { QuotaCountersController } from './action-quotas/quota-counters.controller.js';
import { QuotaCountersService } from './action-quotas/quota-counters.service.js';
import { ApiKeyFinderController } from './api-keys/api-key-finder.controller.js';
import { ApiKeysController } from './api-keys/api-keys.controller.js';
import { ApiKeysService } from './api-keys/api-keys.service.js';
import {
  BudgetOriginController,
  BudgetTemplatesController,
} from './budget-templates/budget-templates.controller.js';
import { BudgetTemplatesService } from './budget-templates/budget-templates.service.js';
import { MadeBudgetsService } from './budget-templates/made-budgets.service.js';
import { TemplatePlans } from './budget-templates/template-plans.js';
import { BudgetBulkActionService } from './budgets/budget-bulk-action.service.js';
import { BudgetPeriodController, BudgetRecurrenceController } from './budgets/budget-period.controller.js';
import { BudgetThresholdsController } from './budgets/budget-thresholds.controller.js';
import { BudgetWindowsController } from './budgets/budget-windows.controller.js';
import { BudgetRollovers } from './budgets/budget-rollovers.js';
import { BudgetUtilization } from './budgets/budget-utilization.js';
import { BudgetsController } from './budgets/budgets.controller.js';
import { BudgetChangesService, BudgetsService } from './budgets/budgets.service.js';
import { FundingService } from './budgets/funding.service.js';
import { KeptOrders } from './budgets/budget-orders.js';
import { PeriodPlans } from './budgets/period-plans.js';
import { RecurrenceService } from './budgets/recurrence.service.js';
import { WindowsService } from './budgets/windows.service.js';
import {
  CreditsController,
  EndingCreditsController,
  TenantCreditsController,
} from './credits/credits.controller.js';
import { CreditsBulkService } from './credits/credits-bulk.service.js';
import { CreditsService } from './credits/credits.service.js';
import { EndingCreditsService } from './credits/ending-credits.service.js';
import { CredentialsController } from './credentials/credentials.controller.js';
import { CredentialsService } from './credentials/credentials.service.js';
import { OperatorsController } from './operators/operators.controller.js';
import { OperatorsService } from './operators/operators.service.js';
import { PoliciesController, PolicyChargeController } from './policies/policies.controller.js';
import { PoliciesService } from './policies/policies.service.js';
import { TenantBulkActionService } from './tenants/tenant-bulk-action.service.js';
import { TenantClosing, TenantClosingJanitor } from './tenants/tenant-closing.js';
import {
  ExpiryPolicyController,
  TenantChargeController,
  TenantsController,
} from './tenants/tenants.controller.js';
import { TenantsService } from './tenants/tenants.service.js';

/** The governance plane: tenants, API keys, budgets, policies and action kinds. */
@Module({
  imports: [AuthModule, BulkActionsModule, ExpiryModule, HttpModule, LimitsModule, WorkerModule],
  controllers: [
    ActionKindsController,
    DeclaredKindsController,
    QuotaCountersController,
    ApiKeyFinderController,
    ApiKeysController,
    BudgetOriginController,
    BudgetPeriodController,
    BudgetRecurrenceController,
    BudgetTemplatesController,
    BudgetThresholdsController,
    BudgetWindowsController,
    BudgetsController,
    CredentialsController,
    CreditsController,
    EndingCreditsController,
    TenantCreditsController,
    OperatorsController,
    PoliciesController,
    PolicyChargeController,
    ExpiryPolicyController,
    TenantChargeController,
    TenantsController,
  ],
  providers: [
    ActionKindsService,
    KnownKinds,
    QuotaCountersService,
    ApiKeysService,
    BudgetBulkActionService,
    BudgetChangesService,
    BudgetRollovers,
    BudgetTemplatesService,
    BudgetUtilization,
    BudgetsService,
    MadeBudgetsService,
    TemplatePlans,
    FundingService,
    KeptOrders,
    PeriodPlans,
    RecurrenceService,
    WindowsService,
    CredentialsService,
    CreditsBulkService,
    CreditsService,
    EndingCreditsService,
    OperatorsService,
    PoliciesService,
    TenantBulkActionService,
    TenantClosing,
    TenantClosingJanitor,
    TenantsService,
  ],
  exports: [BudgetRollovers, BudgetsService, KnownKinds, TemplatePlans],
})
export class GovernanceModule {}
