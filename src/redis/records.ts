import { Injectable } from '@nestjs/common';
import { tenantOfScope } from '../ledger/index.js';
import { type Fields, fieldsOf, type Page } from '../wire/index.js';
import { toStoreError } from './errors.js';
import { budgetIndexKey, tagOfPartition, tagOfTenant, tenantIndexKey } from './keyspace.js';
import { RedisService } from './redis.service.js';
import type { ScriptReply } from './script-call.js';
import { SharedWalk } from './shared-walk.js';
import type { RecordKind } from './skipped-names.js';
import { SkippedRecords } from './skipped-records.js';

/** Records per run of a script: about half a millisecond of Redis time. */
const RECORDS_A_RUN = 100;
/** Partitions read concurrently. */
const PARTITIONS_AT_ONCE = 4;

/** A budget in the reply of a list: see lua/governance/lib/listed_budget.lua. */
const listedBudget = (text: string): Fields => fieldsOf(text.split('\u001f'));

/** Called for each record, without its free texts. `nowMs` is the Redis time at which it was read. */
export type Visit = (fields: Fields, nowMs: number) => void;

type TextKind = Exclude<RecordKind, 'budget' | 'budget_template'>;

/** Identifies a record, which is stored in the partition of its tenant. */
export interface RecordPlace {
  readonly tenantId: string;
  readonly id: string;
}

export interface ScopeWalk {
  readonly direction: 'asc' | 'desc';
  readonly after: string;
  readonly limit: number;
}

/** Where a run through a list ended; both are empty at the start and at the end. */
interface ListPlace {
  readonly tenant: string;
  readonly member: string;
}

type Script = 'list_api_keys' | 'list_budgets' | 'list_budget_templates' | 'list_policies' | 'list_webhooks';

/** The fields that identify a record in its kind. Lists get those of most kinds from the index, whatever the record has. */
const NAMES: Readonly<Record<RecordKind, readonly string[]>> = {
  tenant: ['tenant_id'],
  api_key: ['key_id'],
  budget: ['scope', 'unit'],
  budget_template: ['template_id'],
  policy: ['policy_id'],
  webhook: ['id'],
};

/** Reads one or all stored records. Visits instead of collecting them, so that callers decide what to keep in memory. */
@Injectable()
export class Records {
  private readonly allTenants: SharedWalk<Parameters<Visit>>;
  private readonly allOwned = new Map<Script, SharedWalk<Parameters<Visit>>>();

  constructor(
    private readonly redis: RedisService,
    private readonly skipped: SkippedRecords,
  ) {
    this.allTenants = new SharedWalk(redis.queries, (visit) => this.walkTenants(visit));
  }

  /** What `read` makes of a record, or undefined if the record is damaged, which is then counted and named in the log. */
  whole<Row>(kind: RecordKind, fields: Fields, read: (fields: Fields) => Row): Row | undefined {
    const name = NAMES[kind].map((field) => fields.get(field) ?? '?').join(' ');
    return this.skipped.whole(kind, name, () => read(fields));
  }

  /** The hash tag of a tenant's partition. */
  tagOfTenant(tenantId: string): string {
    return tagOfTenant(tenantId, this.redis.partitions);
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

  /** Visits every tenant. Queries that ask at the same time share a walk. @throws StoreUnavailable */
  eachTenant(visit: Visit): Promise<void> {
    return this.allTenants.join(visit);
  }

  /**
   * Visits every API key, budget, policy or webhook subscription, of one tenant or of all. Queries that ask for all at the same time
   * share a walk.
   * @throws StoreUnavailable
   */
  eachOwned(script: Script, tenantId: string | undefined, visit: Visit): Promise<void> {
    if (tenantId !== undefined) {
      return this.walkOwned(script, this.tagOfTenant(tenantId), tenantId, visit);
    }
    let walk = this.allOwned.get(script);
    if (walk === undefined) {
      walk = new SharedWalk(this.redis.queries, (all) =>
        this.eachPartition((tag) => this.walkOwned(script, tag, '', all)),
      );
      this.allOwned.set(script, walk);
    }
    return walk.join(visit);
  }

  /**
   * Visits a tenant's budgets in the order of their scopes, and the units of a scope in theirs, until `visit` returns false.
   * @param after starts after this text; empty for the first budget
   * @param limit budgets to read at first. More are read only if `visit` has accepted all of them.
   * @throws StoreUnavailable
   */
  async budgetsByScope(
    tenantId: string,
    { direction, after, limit }: ScopeWalk,
    visit: (fields: Fields) => boolean,
  ): Promise<void> {
    const budgetIndex = budgetIndexKey(this.tagOfTenant(tenantId), tenantId);
    let run = { direction, after, limit };
    for (;;) {
      const { nextMember, budgets } = await this.redis.queries.call(
        'list_budgets_by_scope',
        { budgetIndex },
        run,
      );
      if (!budgets.every((text) => visit(listedBudget(text))) || nextMember === undefined) {
        return;
      }
      run = { direction, after: nextMember, limit: RECORDS_A_RUN };
    }
  }

  /**
   * Visits budgets by their names, which are `scope unit`, in the given order. One that does not exist is left out.
   * @throws StoreUnavailable
   */
  async budgets(names: readonly string[], visit: (fields: Fields) => void): Promise<void> {
    const found = new Map<string, Fields>();
    const groups = new Map<string, string[]>();
    for (const name of names) {
      const [scope = ''] = name.split(' ', 1);
      const tag = this.tagOfTenant(tenantOfScope(scope) ?? '');
      groups.set(tag, [...(groups.get(tag) ?? []), name]);
    }
    for (const [tag, group] of groups) {
      for (let done = 0; done < group.length;) {
        const { read, budgets } = await this.redis.queries.call(
          'read_budgets',
          { tenantIndex: tenantIndexKey(tag) },
          { rest: group.slice(done, done + RECORDS_A_RUN) },
        );
        for (const record of budgets.map(listedBudget)) {
          found.set(`${record.get('scope')} ${record.get('unit')}`, record);
        }
        done += read;
      }
    }
    for (const name of names) {
      const fields = found.get(name);
      if (fields !== undefined) {
        visit(fields);
      }
    }
  }

  /**
   * Adds the free texts to the rows of a page. They are large, so only those of the rows on the page are read. A row whose texts are
   * damaged is left out.
   * @throws StoreUnavailable
   */
  async withTexts<Row>(
    kind: TextKind,
    page: Page<Row>,
    placeOf: (row: Row) => RecordPlace,
    textsOf: (fields: Fields) => Partial<Row>,
  ): Promise<Page<Row>> {
    const places = page.rows.map(placeOf);
    const texts = await this.texts(kind, places);
    const rows = page.rows.flatMap((row, index) => {
      const { id } = places[index] as RecordPlace;
      const found = this.skipped.whole(kind, id, () => textsOf(texts[index] as Fields));
      return found === undefined ? [] : [{ ...row, ...found }];
    });
    return { ...page, rows };
  }

  /**
   * The free texts of records, which lists leave out, in the order of the records. Empty for a record that no longer exists.
   * @throws StoreUnavailable
   */
  private async texts(kind: TextKind, records: readonly RecordPlace[]): Promise<Fields[]> {
    const found = new Map<RecordPlace, Fields>();
    const groups = new Map<string, RecordPlace[]>();
    for (const record of records) {
      const tag = this.tagOfTenant(record.tenantId);
      groups.set(tag, [...(groups.get(tag) ?? []), record]);
    }
    for (const [tag, group] of groups) {
      for (let read = 0; read < group.length;) {
        const texts = await this.redis.queries.call(
          'read_texts',
          { tenantIndex: tenantIndexKey(tag) },
          { kind, rest: group.slice(read).map(({ id }) => id) },
        );
        for (const { record } of texts.records) {
          found.set(group[read] as RecordPlace, record);
          read += 1;
        }
      }
    }
    return records.map((record) => found.get(record) ?? new Map<string, string>());
  }

  private walkTenants(visit: Visit): Promise<void> {
    return this.eachPartition((tag) =>
      this.runToEnd(
        ({ tenant }) =>
          this.redis.queries.call(
            'list_tenants',
            { tenantIndex: tenantIndexKey(tag) },
            { after: tenant, limit: RECORDS_A_RUN },
          ),
        visit,
      ),
    );
  }

  private walkOwned(script: Script, tag: string, tenantId: string, visit: Visit): Promise<void> {
    return this.runToEnd(
      ({ tenant, member }) =>
        this.redis.queries.call(
          script,
          { tenantIndex: tenantIndexKey(tag) },
          { tenantId, tenant, after: member, limit: RECORDS_A_RUN },
        ),
      visit,
    );
  }

  private async eachPartition(work: (tag: string) => Promise<void>): Promise<void> {
    let next = 0;
    const takeTurns = async (): Promise<void> => {
      while (next < this.redis.partitions) {
        const partition = next;
        next += 1;
        await work(tagOfPartition(partition));
      }
    };
    await Promise.all(Array.from({ length: PARTITIONS_AT_ONCE }, takeTurns));
  }

  private async runToEnd(
    run: (after: ListPlace) => Promise<ScriptReply<'list_tenants' | 'list_budgets'>>,
    visit: Visit,
  ): Promise<void> {
    let after: ListPlace = { tenant: '', member: '' };
    do {
      const { nowMs, nextTenant = '', nextMember = '', ...listed } = await run(after);
      const records =
        'budgets' in listed ? listed.budgets.map(listedBudget) : listed.records.map(({ record }) => record);
      for (const record of records) {
        visit(record, nowMs);
      }
      after = { tenant: nextTenant, member: nextMember };
    } while (after.tenant !== '');
  }
}
