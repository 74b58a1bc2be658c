import { Module } from '@nestjs/common';
import { ApiKeysModule } from './api-keys/index.js';
import { BudgetsModule } from './budgets/index.js';
import { TenantsModule } from './tenants/index.js';

/** The governance plane: who may use the ledger, and what there is to use. */
@Module({ imports: [TenantsModule, ApiKeysModule, BudgetsModule] })
export class GovernanceModule {}
