import { INT64_MAX } from '../../src/ledger/amount.js';
import type { LedgerModel } from './model.js';
import type { Operation } from './operations.js';
import type { Request } from './play.js';

const UNKNOWN_HOLD = 'rsv_unknown';
const INSTANT_DIGITS = 11;

/** The refunds of a play, and the ids of the direct debits that they name. */
export class PlayedRefunds {
  /** The whole ids of direct debits, by what the model knows of them. */
  private readonly debitIds = new Map<string, string>();

  constructor(
    private readonly model: LedgerModel,
    private readonly tenants: readonly string[],
    /** Who asks for what nobody owns. */
    private readonly stranger: string,
  ) {}

  /** The reply of a direct debit, without the instant that the script adds to the id: the model does not know it. */
  withGivenId(reply: string[]): string[] {
    const [word, , whole = ''] = reply;
    if (word !== 'APPLIED') {
      return reply;
    }
    const given = whole.slice(0, -INSTANT_DIGITS);
    this.debitIds.set(given, whole);
    return reply.with(2, given);
  }

  request(operation: Operation & { kind: 'refund' }, key: string): Request {
    const { hold, foreign, wrongUnit, ofDebit, share } = operation;
    const debits = [...this.model.debits.keys()];
    const id = (ofDebit ? debits[hold % debits.length] : undefined) ?? this.holdAt(hold);
    const charge = this.model.debits.get(id) ?? this.model.holds.get(id);
    const owner = charge?.tenant ?? this.stranger;
    const tenant = foreign ? (this.tenants.find((name) => name !== owner) as string) : owner;
    const part = ((charge?.charged ?? 100n) * share) / 100n;
    const whole = part < 1n ? 1n : part > INT64_MAX ? INT64_MAX : part;
    const unit = wrongUnit ? 'CREDITS' : (charge?.unit ?? 'TOKENS');
    return (altered) => {
      const amount = altered ? whole / 2n + 1n : whole;
      return {
        send: (client) => client.refund(this.debitIds.get(id) ?? id, String(amount), { tenant, key, unit }),
        judge: (model, now) => model.refund({ tenant, id, key, unit, amount }, now),
      };
    };
  }

  /** Mostly one that was charged. */
  private holdAt(index: number): string {
    const holds = [...this.model.holds.values()];
    const charged = holds.filter(({ charged = 0n }) => charged > 0n);
    const from = index % 4 === 0 || charged.length === 0 ? holds : charged;
    return from[index % (from.length + 1)]?.id ?? UNKNOWN_HOLD;
  }
}
