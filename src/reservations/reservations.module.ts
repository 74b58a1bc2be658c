import { Module } from '@nestjs/common';
import { EvidenceModule } from '../evidence/index.js';
import { ExpiryMetricsModule } from '../expiry/index.js';
import { BudgetsModule, KnownKindsModule } from '../governance/index.js';
import { HealthModule } from '../http/index.js';
import { TenantLimitsModule } from '../limits/index.js';
import { Admission } from './admission.js';
import { AttestedAnswers } from './attested-answers.js';
import { BalancesController } from './balances/balances.controller.js';
import { BalancesService, LedgersService } from './balances/balances.service.js';
import { CommitController } from './commit/commit.controller.js';
import { CommitService } from './commit/commit.service.js';
import { DecideController } from './decide/decide.controller.js';
import { DecideService } from './decide/decide.service.js';
import { DirectDebitController } from './direct-debit/direct-debit.controller.js';
import { DirectDebitService } from './direct-debit/direct-debit.service.js';
import { ExtendController } from './extend/extend.controller.js';
import { ExtendService } from './extend/extend.service.js';
import { FundsForecast } from './funds-forecast.js';
import { BudgetHoldsService } from './query/budget-holds.service.js';
import { GetService } from './query/get.service.js';
import { ListService, ReservationIndex } from './query/list.service.js';
import { BudgetHoldsController, QueryController } from './query/query.controller.js';
import { ReleaseController } from './release/release.controller.js';
import { ReleaseService } from './release/release.service.js';
import { ReservationStore } from './reservation-store.js';
import { FundsWaiters } from './reserve/funds-waiters.js';
import { ReserveController } from './reserve/reserve.controller.js';
import { ReserveService } from './reserve/reserve.service.js';
import { DamagedRecords } from './script-refusals.js';

/** What the operations below share. */
@Module({
  imports: [EvidenceModule, ExpiryMetricsModule, KnownKindsModule],
  providers: [Admission, AttestedAnswers, DamagedRecords, FundsForecast, ReservationStore],
  exports: [
    Admission,
    AttestedAnswers,
    DamagedRecords,
    FundsForecast,
    ReservationStore,
    EvidenceModule,
    ExpiryMetricsModule,
  ],
})
export class ReservationStoreModule {}

@Module({
  imports: [HealthModule, ReservationStoreModule, TenantLimitsModule],
  controllers: [ReserveController],
  providers: [FundsWaiters, ReserveService],
})
export class ReserveModule {}

@Module({ imports: [ReservationStoreModule], controllers: [CommitController], providers: [CommitService] })
export class CommitModule {}

@Module({ imports: [ReservationStoreModule], controllers: [ReleaseController], providers: [ReleaseService] })
export class ReleaseModule {}

@Module({ imports: [ReservationStoreModule], controllers: [ExtendController], providers: [ExtendService] })
export class ExtendModule {}

@Module({
  imports: [ReservationStoreModule],
  controllers: [BudgetHoldsController, QueryController],
  providers: [BudgetHoldsService, GetService, ListService, ReservationIndex],
})
export class QueryModule {}

@Module({ imports: [ReserveModule, CommitModule, ReleaseModule, ExtendModule, QueryModule] })
export class ReservationsModule {}

@Module({ imports: [ReservationStoreModule], controllers: [DecideController], providers: [DecideService] })
export class DecideModule {}

@Module({
  imports: [ReservationStoreModule],
  controllers: [DirectDebitController],
  providers: [DirectDebitService],
})
export class DirectDebitModule {}

@Module({
  imports: [BudgetsModule],
  controllers: [BalancesController],
  providers: [BalancesService, LedgersService],
})
export class BalancesModule {}
