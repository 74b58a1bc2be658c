import { Module } from '@nestjs/common';
import { ApiKeysModule } from './api-keys/index.js';
import { AuditLogModule } from './audit-log/index.js';
import { BudgetsModule } from './budgets/index.js';
import { CredentialsModule } from './credentials/index.js';
import { PoliciesModule } from './policies/index.js';
import { TenantsModule } from './tenants/index.js';

/** The governance plane: who may use the ledger, and what there is to use. */
@Module({
  imports: [TenantsModule, ApiKeysModule, AuditLogModule, BudgetsModule, CredentialsModule, PoliciesModule],
})
export class GovernanceModule {}
