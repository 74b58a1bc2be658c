import { Injectable } from '@nestjs/common';
import { journalKey, RedisService, tagOfTenant } from '../redis/index.js';

/** Entries that one script examines, with their records: about a millisecond of Redis' time. */
const EXAMINED_A_RUN = 200;

/** What is wrong with the journal of one reservation. */
export interface JournalFault {
  readonly reservationId: string;
  /**
   * MISSING: it has ended and has no entry. DOUBLED: it has several. LIVE: it has one, and has not ended. CHARGE: its entry and its record
   * name different charges.
   */
  readonly kind: 'MISSING' | 'DOUBLED' | 'LIVE' | 'CHARGE';
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
    let after = '';
    do {
      const page = await this.page(tenantId, after, EXAMINED_A_RUN);
      for (const { reservationId, charged, expected } of page.entries) {
        if (found.has(reservationId)) {
          faults.push({ reservationId, kind: 'DOUBLED' });
        } else if (expected === undefined) {
          faults.push({ reservationId, kind: 'LIVE' });
        } else if (charged !== expected) {
          faults.push({ reservationId, kind: 'CHARGE' });
        }
        found.add(reservationId);
      }
      after = page.next ?? '';
    } while (after !== '');
    const passedMs = await this.passedMs(tenantId);
    for (const [reservationId, endedMs] of ended) {
      if (endedMs > passedMs && !found.has(reservationId)) {
        faults.push({ reservationId, kind: 'MISSING' });
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
