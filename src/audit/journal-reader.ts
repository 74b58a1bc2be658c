import { Injectable } from '@nestjs/common';
import { journalKey, RedisService, type ScriptReply, tagOfTenant } from '../redis/index.js';

/** Entries that one script examines, with their records: about a millisecond of Redis' time. */
const EXAMINED_A_RUN = 200;

/** What is wrong with the journal of one charge. */
export interface JournalFault {
  /** Of the reservation, or of the direct debit. */
  readonly chargeId: string;
  /**
   * MISSING: it has ended and has no entry. DOUBLED: it has several. LIVE: it has one, and has not ended. CHARGE: its entry and its record
   * name different charges. REFUND: its refunds do not add up to what its record says, or to more than its charge.
   */
  readonly kind: 'MISSING' | 'DOUBLED' | 'LIVE' | 'CHARGE' | 'REFUND';
}

type Entry = ScriptReply<'verify_journal'>['entries'][number];

/** Adds up refunds. Each says the sum up to it, so those that packing has passed are no gap. */
class Refunds {
  private readonly last = new Map<string, { readonly sum: bigint; readonly total: bigint }>();
  private readonly broken = new Set<string>();

  add({ chargeId, charged, expected = '0', total = '0' }: Entry, refunded: string): void {
    const sum = BigInt(refunded);
    const before = this.last.get(chargeId)?.sum ?? sum + BigInt(charged);
    if (before < 0n || before - BigInt(charged) !== sum || sum > BigInt(expected)) {
      this.broken.add(chargeId);
    }
    // What its record said when this was read: later refunds have entries after it.
    this.last.set(chargeId, { sum, total: BigInt(total) });
  }

  wrong(): readonly string[] {
    const differing = [...this.last].filter(([, { sum, total }]) => sum !== total).map(([id]) => id);
    return [...new Set([...this.broken, ...differing])];
  }
}

/**
 * Compares the journal with the records. Packing removes what it has passed, so this can only be said of later ends: each has one entry with
 * its charge, and nothing else has.
 */
@Injectable()
export class JournalReader {
  constructor(private readonly redis: RedisService) {}

  /** When the last entry was appended that packing had passed, in ms. */
  async passedMs(tenantId: string): Promise<number> {
    return (await this.page(tenantId, '', 0)).passedMs;
  }

  /** @param ended the ends of the tenant's reservations that were read before, by id, in ms */
  async faultsOf(tenantId: string, ended: ReadonlyMap<string, number>): Promise<JournalFault[]> {
    const faults: JournalFault[] = [];
    const found = new Set<string>();
    const refunds = new Refunds();
    let after = '';
    do {
      const page = await this.page(tenantId, after, EXAMINED_A_RUN);
      for (const entry of page.entries) {
        const { chargeId, charged, expected, refunded } = entry;
        if (refunded !== undefined) {
          refunds.add(entry, refunded);
          continue;
        }
        if (found.has(chargeId)) {
          faults.push({ chargeId, kind: 'DOUBLED' });
        } else if (expected === undefined) {
          faults.push({ chargeId, kind: 'LIVE' });
        } else if (charged !== expected) {
          faults.push({ chargeId, kind: 'CHARGE' });
        }
        found.add(chargeId);
      }
      after = page.next ?? '';
    } while (after !== '');
    for (const chargeId of refunds.wrong()) {
      faults.push({ chargeId, kind: 'REFUND' });
    }
    const passedMs = await this.passedMs(tenantId);
    for (const [reservationId, endedMs] of ended) {
      if (endedMs > passedMs && !found.has(reservationId)) {
        faults.push({ chargeId: reservationId, kind: 'MISSING' });
      }
    }
    return faults;
  }

  private page(tenantId: string, after: string, limit: number) {
    const tag = tagOfTenant(tenantId, this.redis.partitions);
    return this.redis.queries.call(
      'verify_journal',
      { journal: journalKey(tag) },
      { tenantId, after, limit },
    );
  }
}
