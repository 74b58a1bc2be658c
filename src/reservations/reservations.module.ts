import { Module } from '@nestjs/common';
import { AuthModule } from '../auth/index.js';
import { EvidenceModule } from '../evidence/index.js';
import { ExpiryModule } from '../expiry/index.js';
import { GovernanceModule } from '../governance/index.js';
import { HttpModule } from '../http/index.js';
import { LimitsModule } from '../limits/index.js';
import { Admission } from './admission.js';
import { AttestedAnswers } from './attested-answers.js';
import { BalancesController } from './balances/balances.controller.js';
import { BalancesService, LedgersService } from './balances/balances.service.js';
import { BatchController } from './batch/batch.controller.js';
import { BatchedOperations } from './batch/batched-operations.js';
import { CommitController } from './commit/commit.controller.js';
import { CommitService } from './commit/commit.service.js';
import { DecideController } from './decide/decide.controller.js';
import { DecideService } from './decide/decide.service.js';
import { DirectDebitController } from './direct-debit/direct-debit.controller.js';
import { DirectDebitService } from './direct-debit/direct-debit.service.js';
import { ExtendController } from './extend/extend.controller.js';
import { ExtendService } from './extend/extend.service.js';
import { FundsForecast } from './funds-forecast.js';
import { OperationAnswers } from './operation-answers.js';
import { BudgetHoldsService } from './query/budget-holds.service.js';
import { LiveHoldsService } from './query/live-holds.service.js';
import { GetService } from './query/get.service.js';
import { ListService, ReservationIndex } from './query/list.service.js';
import { BudgetHoldsController, LiveHoldsController, QueryController } from './query/query.controller.js';
import { RefundController } from './refund/refund.controller.js';
import { RefundService } from './refund/refund.service.js';
import { ReleaseController } from './release/release.controller.js';
import { ReleaseService } from './release/release.service.js';
import { ReservationScripts } from './reservation-scripts.js';
import { FundsWaiters } from './reserve/funds-waiters.js';
import { ReserveController } from './reserve/reserve.controller.js';
import { ReserveService } from './reserve/reserve.service.js';
import { ReservationSetController } from './reservation-sets/reservation-sets.controller.js';
import { ReservationSetService } from './reservation-sets/reservation-sets.service.js';
import { DamagedRecords } from './script-refusals.js';

/** What is read, decided and debited at once, and what the modules below share with it. */
@Module({
  imports: [EvidenceModule, ExpiryModule, GovernanceModule, LimitsModule],
  controllers: [
    BalancesController,
    BudgetHoldsController,
    LiveHoldsController,
    DecideController,
    DirectDebitController,
    QueryController,
    RefundController,
  ],
  providers: [
    Admission,
    AttestedAnswers,
    BalancesService,
    BudgetHoldsService,
    LiveHoldsService,
    DamagedRecords,
    DecideService,
    DirectDebitService,
    FundsForecast,
    GetService,
    LedgersService,
    ListService,
    OperationAnswers,
    RefundService,
    ReservationIndex,
    ReservationScripts,
  ],
  exports: [
    Admission,
    AttestedAnswers,
    DamagedRecords,
    DirectDebitService,
    OperationAnswers,
    RefundService,
    ReservationScripts,
  ],
})
export class ReservationsModule {}

@Module({
  imports: [AuthModule, HttpModule, LimitsModule, ReservationsModule],
  controllers: [ReserveController, ReservationSetController],
  providers: [FundsWaiters, ReservationSetService, ReserveService],
  exports: [ReserveService],
})
export class ReserveModule {}

@Module({
  imports: [ReservationsModule],
  controllers: [CommitController],
  providers: [CommitService],
  exports: [CommitService],
})
export class CommitModule {}

@Module({
  imports: [ReservationsModule],
  controllers: [ReleaseController],
  providers: [ReleaseService],
  exports: [ReleaseService],
})
export class ReleaseModule {}

@Module({
  imports: [ReservationsModule],
  controllers: [ExtendController],
  providers: [ExtendService],
  exports: [ExtendService],
})
export class ExtendModule {}

@Module({
  imports: [HttpModule, ReservationsModule, ReserveModule, CommitModule, ReleaseModule, ExtendModule],
  controllers: [BatchController],
  providers: [BatchedOperations],
})
export class BatchModule {}
