import { deriveScopes } from '../../src/ledger/scopes.js';
import { tenantEventsKey } from '../../src/redis/keyspace.js';
import { holdFields } from './hold-record.js';
import { journalEntry, type JournalEntry } from './journal.js';
import type { LedgerClient } from './ledger-client.js';
import { probeText } from './script-probe.js';

export interface LedgerEvent {
  readonly id: string;
  readonly fields: Readonly<Record<string, string>>;
}

/** Everything that a partition holds, read at one instant. */
export interface LedgerState {
  readonly budgets: ReadonlyMap<string, Readonly<Record<string, string>>>;
  readonly holds: ReadonlyMap<string, Readonly<Record<string, string>>>;
  readonly ttl: ReadonlyMap<string, string>;
  /** Live holds under MANUAL_CLEANUP: score by reservation. */
  readonly cleanup: ReadonlyMap<string, string>;
  /** The index for the lists of all tenants: score by reservation. */
  readonly created: ReadonlyMap<string, string>;
  readonly quarantine: ReadonlyMap<string, string>;
  /** The ends of the budgets' periods, by 'scope unit'. */
  readonly periods: ReadonlyMap<string, string>;
  /** How many rows of the audit log report rollovers. */
  readonly rolloverRows: number;
  /** The counts of what each tenant owns. */
  readonly owned: ReadonlyMap<string, Readonly<Record<string, string>>>;
  /** The fields of each tenant's daily counters, from the hash and from its index. */
  readonly counters: ReadonlyMap<string, readonly string[]>;
  readonly listedCounters: ReadonlyMap<string, readonly string[]>;
  readonly events: readonly LedgerEvent[];
  readonly journal: readonly JournalEntry[];
  /** The last entry of the journal that packing has passed. What it has passed is gone. */
  readonly packed: string | undefined;
}

/** Reads reservation records as the scripts do, packed or not. */
const READ_ALL = probeText(`#!lua flags=no-writes
-- read_all: reads all that a partition holds.
-- KEYS[1] tag
-- RETURNS contents
-- BOUND one partition of a test
-- EMITS nothing
-- @include hold_form
local tag, reply = KEYS[1], {}
for _, key in ipairs(redis.call('KEYS', tag .. '*')) do
  local kind, name = redis.call('TYPE', key).ok, string.sub(key, #tag + 1)
  if kind == 'hash' and string.sub(name, 1, 2) == 'r:' then
    local flat = {}
    for field, value in pairs(hold_form.record_fields(key)) do
      flat[#flat + 1] = field
      flat[#flat + 1] = value
    end
    reply[#reply + 1] = { name, flat }
  elseif kind == 'hash' then
    reply[#reply + 1] = { name, redis.call('HGETALL', key) }
  elseif kind == 'stream' then
    reply[#reply + 1] = { name, redis.call('XRANGE', key, '-', '+') }
  elseif kind == 'zset' and (name == 'ttl' or name == 'cleanup' or name == 'periods' or string.find(name, '^rc:') or string.find(name, '^aqi:')) then
    reply[#reply + 1] = { name, redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') }
  end
end
return reply
`);

/** A dump of a large hash also depends on its order, which a read may change. */
const DIGEST_ALL = `
local function contents(key)
  if redis.call('OBJECT', 'ENCODING', key) ~= 'hashtable' or redis.call('TYPE', key).ok ~= 'hash' then
    return redis.call('DUMP', key)
  end
  local fields, texts = redis.call('HGETALL', key), {}
  for i = 1, #fields, 2 do
    texts[#texts + 1] = #fields[i] .. ':' .. fields[i] .. fields[i + 1]
  end
  table.sort(texts)
  return table.concat(texts, string.char(0))
end
local reply = {}
for _, key in ipairs(redis.call('KEYS', KEYS[1] .. '*')) do
  reply[#reply + 1] = key
  reply[#reply + 1] = redis.sha1hex(contents(key)) .. ' until ' .. redis.call('PEXPIRETIME', key)
end
return reply`;

function pairs(flat: readonly string[]): [string, string][] {
  return Array.from({ length: flat.length / 2 }, (_, index) => [
    flat[2 * index] as string,
    flat[2 * index + 1] as string,
  ]);
}

export async function readLedger(client: LedgerClient): Promise<LedgerState> {
  const keys = (await client.redis.eval(READ_ALL, 1, client.tag)) as [string, unknown][];
  const budgets = new Map<string, Record<string, string>>();
  const holds = new Map<string, Record<string, string>>();
  const state = {
    budgets,
    holds,
    ttl: new Map<string, string>(),
    cleanup: new Map<string, string>(),
    created: new Map<string, string>(),
    quarantine: new Map<string, string>(),
    periods: new Map<string, string>(),
    rolloverRows: 0,
  };
  const owned = new Map<string, Record<string, string>>();
  const [counters, listedCounters] = [new Map<string, string[]>(), new Map<string, string[]>()];
  const namesIn = (content: unknown): string[] => pairs(content as string[]).map(([name]) => name);
  let events: LedgerEvent[] = [];
  let journal: JournalEntry[] = [];
  let packed: string | undefined;
  for (const [name, content] of keys) {
    if (name === 'events') {
      events = (content as [string, string[]][]).map(([id, flat]) => ({
        id,
        fields: Object.fromEntries(pairs(flat)),
      }));
    } else if (name === 'journal') {
      journal = (content as [string, string[]][]).map((entry) => journalEntry(client.tag, entry));
    } else if (name === 'journal-places') {
      packed = Object.fromEntries(pairs(content as string[]))['packed'];
    } else if (name === 'ttl') {
      state.ttl = new Map(pairs(content as string[]));
    } else if (name === 'audit') {
      state.rolloverRows = (content as [string, string[]][]).filter(([, row]) =>
        row.includes('rollOverBudget'),
      ).length;
    } else if (name === 'periods') {
      state.periods = new Map(pairs(content as string[]));
    } else if (name === 'cleanup') {
      state.cleanup = new Map(pairs(content as string[]));
    } else if (name.startsWith('rc:')) {
      pairs(content as string[]).forEach(([id, score]) => state.created.set(id, score));
    } else if (name === 'quarantine') {
      state.quarantine = new Map(pairs(content as string[]));
    } else if (name.startsWith('aq:')) {
      counters.set(name.slice(3), namesIn(content));
    } else if (name.startsWith('aqi:')) {
      listedCounters.set(name.slice(4), namesIn(content));
    } else if (name.startsWith('own:')) {
      owned.set(name.slice(4), Object.fromEntries(pairs(content as string[])));
    } else if (name.startsWith('b:')) {
      budgets.set(name.slice(2), Object.fromEntries(pairs(content as string[])));
    } else if (name.startsWith('r:')) {
      holds.set(name.slice(2), holdFields(Object.fromEntries(pairs(content as string[]))));
    }
  }
  return { ...state, owned, counters, listedCounters, events, journal, packed };
}

/**
 * A digest of every key of the partition, including its expiry. The event log and its index can be left out,
 * because a denial is recorded there.
 */
export async function snapshot(client: LedgerClient, leaveOut?: 'events'): Promise<Map<string, string>> {
  const digests = new Map(pairs((await client.redis.eval(DIGEST_ALL, 1, client.tag)) as string[]));
  if (leaveOut === 'events') {
    digests.delete(`${client.tag}events`);
    digests.delete(tenantEventsKey(client.tag, client.tenant));
  }
  return digests;
}

/**
 * Whether the event only reports that the use of a budget crossed a threshold, as most operations on a small
 * budget do.
 */
export function isCrossing({ fields }: LedgerEvent): boolean {
  return fields['ty'] === 'budget.threshold_crossed';
}

/** The budgeted scopes of a hold, each prefixed with its unit as in the budget keys. */
function heldBudgets(hold: Readonly<Record<string, string>>): string[] {
  const { ws: workspace, ap: app, wf: workflow, ag: agent, ts: toolset } = hold;
  const given = Object.entries({ workspace, app, workflow, agent, toolset }).filter(
    ([, value]) => value !== undefined,
  );
  const scopes = deriveScopes(Object.fromEntries(given), hold['tn'] as string);
  return scopes.filter((_, index) => hold['bm']?.[index] === '1').map((scope) => `${hold['un']}:${scope}`);
}

function budgetFaults(state: LedgerState): string[] {
  const reserved = new Map<string, bigint>();
  for (const hold of state.holds.values()) {
    if (hold['st'] === 'ACTIVE') {
      for (const name of heldBudgets(hold)) {
        reserved.set(name, (reserved.get(name) ?? 0n) + BigInt(hold['am'] as string));
      }
    }
  }
  const faults: string[] = [];
  for (const [name, budget] of state.budgets) {
    const figure = (field: string): bigint => BigInt(budget[field] as string);
    const expected = figure('allocated') - figure('spent') - figure('reserved') - figure('debt');
    if (figure('remaining') !== expected) {
      faults.push(
        `${name}: remaining is ${figure('remaining')}, allocated - spent - reserved - debt is ${expected}`,
      );
    }
    if (figure('reserved') !== (reserved.get(name) ?? 0n)) {
      faults.push(
        `${name}: reserved is ${figure('reserved')}, its live holds add up to ${reserved.get(name) ?? 0n}`,
      );
    }
    const hasExtras = ['waiting', 'period_end', 'windows', 'credits'].some(
      (field) => budget[field] !== undefined,
    );
    if (hasExtras !== (budget['extras'] !== undefined)) {
      faults.push(`${name}: its field extras is ${budget['extras']}`);
    }
    for (const field of ['spent', 'reserved', 'debt', 'allocated'].filter((field) => figure(field) < 0n)) {
      faults.push(`${name}: ${field} is negative`);
    }
  }
  const unbudgeted = [...reserved.keys()].filter((name) => !state.budgets.has(name));
  return [...faults, ...unbudgeted.map((name) => `${name}: held, but there is no such budget`)];
}

function indexFaults(state: LedgerState): string[] {
  const faults: string[] = [];
  for (const [id, hold] of state.holds) {
    const live = hold['st'] === 'ACTIVE' && !state.quarantine.has(id);
    const expected = live ? String(Number(hold['ex']) + Number(hold['gr'])) : undefined;
    const [home, other] = hold['xp'] === 'm' ? [state.cleanup, state.ttl] : [state.ttl, state.cleanup];
    if (home.get(id) !== expected) {
      faults.push(`${id} (${hold['st']}): its index score is ${home.get(id)}, but should be ${expected}`);
    }
    if (other.has(id)) {
      faults.push(`${id} (${hold['st']}): in the index of another expiry policy`);
    }
  }
  for (const [id, hold] of state.holds) {
    // A test may have damaged the creation time in the record; its position in the lists stays.
    const listed = state.created.get(id);
    if (listed === undefined || (/^\d+$/.test(hold['ca'] ?? '') && listed !== hold['ca'])) {
      faults.push(`${id}: listed under ${listed}, but created at ${hold['ca']}`);
    }
  }
  const orphans = [...state.ttl.keys(), ...state.cleanup.keys()].filter((id) => !state.holds.has(id));
  return [...faults, ...orphans.map((id) => `${id}: in an index of deadlines without a record`)];
}

function eventFaults(state: LedgerState, eventsSinceMs: number): string[] {
  const count = (type: string, id: string): number =>
    state.events.filter(({ fields }) => fields['ty'] === type && fields['reservation_id'] === id).length;
  const faults: string[] = [];
  const told = [...state.holds].filter(([, { fa: endedAt = Infinity }]) => Number(endedAt) > eventsSinceMs);
  for (const [id, hold] of told) {
    const expected: [string, number][] = [
      ['reservation.expired', hold['st'] === 'EXPIRED' ? 1 : 0],
      ['custom.reservation.quarantined', state.quarantine.has(id) ? 1 : 0],
    ];
    for (const [type, times] of expected.filter(([type, times]) => count(type, id) !== times)) {
      faults.push(`${id} (${hold['st']}): ${count(type, id)} events ${type}, but should be ${times}`);
    }
    if (count('reservation.commit_overage', id) > (hold['st'] === 'COMMITTED' ? 1 : 0)) {
      faults.push(
        `${id} (${hold['st']}): ${count('reservation.commit_overage', id)} events reservation.commit_overage`,
      );
    }
    const expired = state.events.find(
      ({ fields }) => fields['ty'] === 'reservation.expired' && fields['reservation_id'] === id,
    );
    const charge = hold['ce'] === '0' ? undefined : hold['ce'];
    if (expired !== undefined && expired.fields['charged'] !== charge) {
      faults.push(`${id}: its expiry tells a charge of ${expired.fields['charged']}, but it was ${charge}`);
    }
    if (hold['ev'] !== undefined && !state.events.some((event) => event.id === hold['ev'])) {
      faults.push(`${id}: names an event that is not in the log`);
    }
  }
  return faults;
}

/** The number of live reservations that is counted for a tenant must be that of its ACTIVE records. */
function countFaults(state: LedgerState): string[] {
  const active = [...state.holds.values()].filter((hold) => hold['st'] === 'ACTIVE');
  const tenants = new Set([...state.owned.keys(), ...active.map((hold) => hold['tn'] as string)]);
  return [...tenants].flatMap((tenant) => {
    const [counted, real] = [
      Number(state.owned.get(tenant)?.['live'] ?? 0),
      active.filter((hold) => hold['tn'] === tenant).length,
    ];
    return counted === real
      ? []
      : [`${tenant}: ${counted} live reservations are counted, but there are ${real}`];
  });
}

/** A hash of counters must have the same fields as its index. */
function counterFaults(state: LedgerState): string[] {
  return [...state.counters].flatMap(([day, fields]) =>
    fields
      .filter((field) => state.listedCounters.get(day)?.includes(field) !== true)
      .map((field) => `${day}: its counter ${field} is not in the index`),
  );
}

/** The budgeted scopes of a direct debit, in the same form. */
function debitedBudgets(state: LedgerState, { event }: JournalEntry): string[] {
  const { sc: leaf = '', unit, bm: mask } = state.events.find(({ id }) => id === event)?.fields ?? {};
  const segments = leaf.split('/');
  return segments.flatMap((_, index) =>
    mask?.[index] === '1' ? [`${unit}:${segments.slice(0, index + 1).join('/')}`] : [],
  );
}

/** What each budget was charged by the journal, if packing has passed none of it: a line each, without those that were charged nothing. */
export function chargedBy(state: LedgerState): string[] {
  const charged = new Map<string, bigint>();
  for (const entry of state.journal.filter(({ mended }) => mended === undefined)) {
    const budgets =
      entry['id'] === undefined
        ? debitedBudgets(state, entry)
        : heldBudgets(state.holds.get(entry['id']) as Record<string, string>);
    for (const name of budgets) {
      charged.set(name, (charged.get(name) ?? 0n) + BigInt(entry['ch'] as string));
    }
  }
  return linesOf(charged);
}

/** Sums in the form of `chargedBy`. */
export function linesOf(charged: ReadonlyMap<string, bigint>): string[] {
  return [...charged]
    .filter(([, sum]) => sum !== 0n)
    .map(([name, sum]) => `${name} ${sum}`)
    .sort();
}

/** Each end of a hold that packing has not passed must have one entry with its charge, and a live hold must have none. */
function journalFaults(state: LedgerState): string[] {
  const entries = new Map<string, string[]>();
  const refunds = new Map<string, bigint>();
  for (const { id, ch: charged = '', rf: refunded, mended } of state.journal) {
    if (id !== undefined && refunded !== undefined) {
      refunds.set(id, (refunds.get(id) ?? 0n) - BigInt(charged));
    } else if (id !== undefined && mended === undefined) {
      entries.set(id, [...(entries.get(id) ?? []), charged]);
    }
  }
  const passedMs = Number.parseInt(state.packed ?? '0', 10);
  return [...state.holds].flatMap(([id, hold]) => {
    const found = (entries.get(id) ?? []).join();
    const charges: Record<string, string | undefined> = { COMMITTED: hold['ch'], EXPIRED: hold['ce'] };
    const expected = hold['st'] === 'ACTIVE' ? '' : (charges[hold['st'] as string] ?? '0');
    const isPassed = found === '' && Number(hold['fa']) <= passedMs;
    const [refunded, told] = [BigInt(hold['rf'] ?? 0), refunds.get(id) ?? 0n];
    if (told > refunded || (state.packed === undefined && told !== refunded)) {
      return [`${id}: the journal has refunds of ${told}, but its record has ${refunded}`];
    }
    return found === expected || isPassed
      ? []
      : [`${id} (${hold['st']}): the journal has the charges [${found}], but should have [${expected}]`];
  });
}

/**
 * The broken invariants of the partition, of those that hold after every script. Empty for a sound ledger.
 * The events of holds that ended before `eventsSinceMs` may have left the log.
 */
export function faultsOf(state: LedgerState, eventsSinceMs = 0): string[] {
  return [
    ...budgetFaults(state),
    ...indexFaults(state),
    ...countFaults(state),
    ...eventFaults(state, eventsSinceMs),
    ...counterFaults(state),
    ...journalFaults(state),
  ];
}

/** @throws Error that names each broken invariant */
export async function assertInvariants(client: LedgerClient): Promise<LedgerState> {
  const state = await readLedger(client);
  const faults = faultsOf(state);
  if (faults.length > 0) {
    throw new Error(`the ledger's invariants are broken:\n${faults.join('\n')}`);
  }
  return state;
}
