import { Injectable } from '@nestjs/common';
import type { Caller } from '../../auth/index.js';
import { type AccessRule, accessRuleOf } from '../../http/index.js';
import { CommitController } from '../commit/commit.controller.js';
import { CommitService } from '../commit/commit.service.js';
import { DirectDebitController } from '../direct-debit/direct-debit.controller.js';
import { DirectDebitService } from '../direct-debit/direct-debit.service.js';
import { ExtendController } from '../extend/extend.controller.js';
import { ExtendService } from '../extend/extend.service.js';
import type { Call, LedgerOperation } from '../ledger-operation.js';
import { RefundController } from '../refund/refund.controller.js';
import { RefundService } from '../refund/refund.service.js';
import { ReleaseController } from '../release/release.controller.js';
import { ReleaseService } from '../release/release.service.js';
import { ReserveController } from '../reserve/reserve.controller.js';
import { ReserveService } from '../reserve/reserve.service.js';
import type { BatchedName } from './batch.dto.js';

/** An operation, and who may perform it: as for the request of its own. */
interface Batched {
  readonly operation: LedgerOperation<
    { readonly idempotency_key: string },
    Call<Caller> & { readonly reservationId?: string; readonly eventId?: string }
  >;
  readonly access: AccessRule;
}

@Injectable()
export class BatchedOperations {
  private readonly byName: Readonly<Record<BatchedName, Batched>> = {
    reserve: { operation: this.reserves, access: accessOf(ReserveController, 'reserve') },
    commit: { operation: this.commits, access: accessOf(CommitController, 'commit') },
    release: { operation: this.releases, access: accessOf(ReleaseController, 'release') },
    extend: { operation: this.extensions, access: accessOf(ExtendController, 'extend') },
    refund: { operation: this.refunds, access: accessOf(RefundController, 'ofReservation') },
    event: { operation: this.debits, access: accessOf(DirectDebitController, 'create') },
  };

  constructor(
    private readonly reserves: ReserveService,
    private readonly commits: CommitService,
    private readonly releases: ReleaseService,
    private readonly extensions: ExtendService,
    private readonly debits: DirectDebitService,
    private readonly refunds: RefundService,
  ) {}

  named(name: BatchedName): Batched {
    return this.byName[name];
  }
}

function accessOf<Owner>(controller: { readonly prototype: Owner }, method: keyof Owner): AccessRule {
  return accessRuleOf(controller.prototype[method] as object) as AccessRule;
}
