import { Injectable, Module } from '@nestjs/common';
import { type Fields, fieldsOf } from '../wire/index.js';
import { toStoreError } from './errors.js';
import { partitionCode, partitionOfTenant, tagOf, tenantIndexKey } from './keyspace.js';
import { RedisService } from './redis.service.js';
import type { Reply } from './scripts.js';

/** Records a script reads in one run: about half a millisecond of Redis' time. */
const RECORDS_A_RUN = 100;
/** Partitions that are read at the same time. */
const PARTITIONS_AT_ONCE = 4;

/** Called for each record, which is without its free texts; `nowMs` is Redis' clock when it was read. */
export type Visit = (fields: Fields, nowMs: number) => void;

/** Where a record is: in the partition of its owner, under its own id. */
export interface RecordPlace {
  readonly tenantId: string;
  readonly id: string;
}

/** Reads stored records, one or all. Nothing is kept: whoever lists decides what to hold on to. */
@Injectable()
export class Records {
  constructor(private readonly redis: RedisService) {}

  /** The hash tag of a tenant's partition. */
  tagOfTenant(tenantId: string): string {
    return tagOf(partitionCode(partitionOfTenant(tenantId, this.redis.partitions)));
  }

  /** The record at a key, or undefined. @throws StoreUnavailable */
  async read(key: string): Promise<Fields | undefined> {
    try {
      const fields = Object.entries(await this.redis.client.hgetall(key));
      return fields.length === 0 ? undefined : new Map(fields);
    } catch (error) {
      throw toStoreError(error);
    }
  }

  /** Visits every tenant. @throws StoreUnavailable */
  async eachTenant(visit: Visit): Promise<void> {
    await this.eachPartition((tag) =>
      this.runToEnd(
        (after) => this.redis.queries.run('list_tenants', [tenantIndexKey(tag)], [after[0], RECORDS_A_RUN]),
        visit,
      ),
    );
  }

  /** Visits every API key, budget, policy or webhook subscription, of one tenant or of all. @throws StoreUnavailable */
  async eachOwned(
    script: 'list_api_keys' | 'list_budgets' | 'list_policies' | 'list_webhooks',
    tenantId: string | undefined,
    visit: Visit,
  ): Promise<void> {
    const list = (tag: string): Promise<void> =>
      this.runToEnd(
        ([tenant, member]) =>
          this.redis.queries.run(
            script,
            [tenantIndexKey(tag)],
            [tenantId ?? '', tenant, member, RECORDS_A_RUN],
          ),
        visit,
      );
    await (tenantId === undefined ? this.eachPartition(list) : list(this.tagOfTenant(tenantId)));
  }

  /**
   * The free texts of some records, in their order: those that lists leave out. A record that is gone meanwhile has none.
   * @throws StoreUnavailable
   */
  async texts(
    kind: 'tenant' | 'api_key' | 'policy' | 'webhook',
    records: readonly RecordPlace[],
  ): Promise<Fields[]> {
    const found = new Map<RecordPlace, Fields>();
    const groups = new Map<string, RecordPlace[]>();
    for (const record of records) {
      const tag = this.tagOfTenant(record.tenantId);
      groups.set(tag, [...(groups.get(tag) ?? []), record]);
    }
    for (const [tag, group] of groups) {
      for (let read = 0; read < group.length;) {
        const reply = await this.redis.queries.run(
          'read_texts',
          [tenantIndexKey(tag)],
          [kind, ...group.slice(read).map(({ id }) => id)],
        );
        for (const fields of recordsIn(reply)) {
          found.set(group[read] as RecordPlace, fields);
          read += 1;
        }
      }
    }
    return records.map((record) => found.get(record) ?? new Map<string, string>());
  }

  private async eachPartition(work: (tag: string) => Promise<void>): Promise<void> {
    let next = 0;
    const takeTurns = async (): Promise<void> => {
      while (next < this.redis.partitions) {
        const partition = next;
        next += 1;
        await work(tagOf(partitionCode(partition)));
      }
    };
    await Promise.all(Array.from({ length: PARTITIONS_AT_ONCE }, takeTurns));
  }

  private async runToEnd(
    run: (after: readonly [string, string]) => Promise<Reply>,
    visit: Visit,
  ): Promise<void> {
    let after: readonly [string, string] = ['', ''];
    do {
      const [nowMs, first = '', second = '', ...records] = await run(after);
      for (const fields of recordsIn(records)) {
        visit(fields, Number(nowMs));
      }
      after = [first, second];
    } while (after[0] !== '');
  }
}

/** Records behind one another, each as the number of its names and values and then these. */
function* recordsIn(reply: readonly string[]): Generator<Fields> {
  for (let index = 0; index < reply.length;) {
    const end = index + 1 + Number(reply[index]);
    yield fieldsOf(reply.slice(index + 1, end));
    index = end;
  }
}

@Module({ providers: [Records], exports: [Records] })
export class ListingModule {}
