// A growing ledger, and the cost of a script call in Redis: the CPU time of the main thread, which on a
// shared machine is more reliable than elapsed time.
import { randomBytes } from 'node:crypto';
import { randomFrom, seedFrom } from '../scripts/seed.mjs';
import { ScriptRegistry, keyspace } from './built.mjs';
import { mainThreadSeconds } from './cpu.mjs';
import { Harness } from './harness.mjs';
import { median } from './report.mjs';
import { provision } from './service.mjs';
import {
  commitCall,
  origin,
  reservationIdOf,
  reserveCall,
  reserveLimits,
  reserveTerms,
  tagOfTenant,
} from './workload.mjs';

const random = randomFrom(seedFrom('GROWTH_SEED', 'growth of the ledger'));

const { budgetIndexKey, budgetKey, tenantIndexKey, tenantKey } = keyspace;

/**
 * @typedef {import('./types.ts').Place} Member  a tenant, and the scopes of its requests
 * @typedef {{ member: Member, number: number }} Hold
 * @typedef {{ ledger: GrowthLedger, members: readonly Member[], live: Hold[] }} Population  tenants that reserve, and their live reservations
 * @typedef {'reserve' | 'commit' | 'denied'} Kind
 */

/** The number of concurrent calls. Each has its own registry, so that no two share a run of the script. */
const LANES = 50;
const BATCH = 500;
const HOUR_MS = 3_600_000;
const ALLOCATED = 1e15;
/** In the nesting order of a subject's scopes. */
const LEVELS = ['workspace', 'app', 'workflow', 'agent', 'toolset'];

export class GrowthLedger {
  run = randomBytes(4).toString('hex');
  number = 0;

  /** @param {Harness} harness */
  constructor(harness) {
    this.service = harness.service;
    this.redis = harness.redis;
    this.lanes = Array.from({ length: LANES }, () => new ScriptRegistry(harness.redis));
  }

  /**
   * Without workers, so that only the calls use Redis.
   * @template Value
   * @param {(ledger: GrowthLedger) => Promise<Value>} work
   */
  static with(work) {
    return Harness.with({ settings: { HOLDFAST_ROLES: 'api' } }, (harness) =>
      work(new GrowthLedger(harness)),
    );
  }

  /** @returns {import('../src/redis/scripts.ts').ScriptRegistry} */
  get scripts() {
    const [first] = this.lanes;
    if (first === undefined) {
      throw new Error('there is no lane');
    }
    return first;
  }

  /**
   * A tenant with its budgets, made over HTTP, and its API key.
   * @param {string} name
   */
  async provision(name) {
    const tenant = await provision(this.service.port, name);
    return { apiKey: tenant.apiKey, population: this.population([this.memberOf(tenant)]) };
  }

  /**
   * @param {Pick<Member, 'tenant' | 'scopes'> & Partial<Member>} tenant
   * @returns {Member}
   */
  memberOf(tenant) {
    const [keyId, apiKey] = ['key_00benchmark0000000', ''];
    return { keyId, apiKey, ...tenant, run: this.run, tag: tagOfTenant(tenant.tenant) };
  }

  /**
   * @param {readonly Member[]} members
   * @returns {Population}
   */
  population(members) {
    return { ledger: this, members, live: [] };
  }

  /**
   * Makes tenants with a budget at each scope of `depth` levels.
   * @param {readonly string[]} names
   */
  async addTenants(names, depth = 1) {
    const members = names.map((tenant) => this.memberOf({ tenant, scopes: nestedScopes(tenant, depth) }));
    await this.callMany(
      'create_tenant',
      members.map(({ tenant, tag }) => ({
        keys: { tenant: tenantKey(tag, tenant), tenantIndex: tenantIndexKey(tag) },
        args: { tenantId: tenant, name: tenant, ...origin(this.number++), rest: [] },
      })),
    );
    for (const level of Array.from({ length: depth }, (_, index) => index)) {
      await this.addBudgets(members.map((member) => ({ member, scope: member.scopes[level] ?? '' })));
    }
    return members;
  }

  /** @param {readonly { member: Member, scope: string }[]} places */
  async addBudgets(places) {
    await this.callMany(
      'create_budget',
      places.map(({ member: { tenant, tag }, scope }) => ({
        keys: {
          budget: budgetKey(tag, 'TOKENS', scope),
          budgetIndex: budgetIndexKey(tag, tenant),
          tenant: tenantKey(tag, tenant),
        },
        args: {
          tenantId: tenant,
          ledgerId: reservationIdOf({ tag, run: this.run }, this.number++).replace('rsv', 'ldg'),
          scope,
          unit: 'TOKENS',
          allocated: String(ALLOCATED),
          overdraftLimit: '0',
          ...origin(this.number++),
          maxBudgets: 0,
          periodStart: '',
          periodEnd: '',
          rest: [],
        },
      })),
    );
  }

  /**
   * Makes live reservations until there are `count`.
   * @param {Population} population
   * @param {number} count
   */
  async fill(population, count) {
    while (population.live.length < count) {
      const holds = Array.from({ length: Math.min(BATCH, count - population.live.length) }, () =>
        this.nextHold(population),
      );
      const replies = await this.scripts.callMany(
        'reserve',
        holds.map((hold) => this.reserveCall(hold, '10')),
      );
      replies.forEach((reply) => expectStatus(reply, 'ALLOW'));
      for (const hold of holds) {
        population.live.push(hold);
      }
    }
  }

  /**
   * CPU time of Redis' main thread for each of `count` calls, in µs. Reserves add live reservations, commits end random ones.
   * @param {Population} population
   * @param {Kind} kind
   * @param {number} count
   */
  async costOf(population, kind, count) {
    const before = await mainThreadSeconds(this.redis);
    for (let made = 0; made < count; made += LANES) {
      await Promise.all(this.lanes.map((lane) => this.makeCall(lane, population, kind)));
    }
    return (((await mainThreadSeconds(this.redis)) - before) * 1e6) / (Math.ceil(count / LANES) * LANES);
  }

  /**
   * @param {import('../src/redis/scripts.ts').ScriptRegistry} lane
   * @param {Population} population
   * @param {Kind} kind
   */
  async makeCall(lane, population, kind) {
    if (kind === 'commit') {
      const { member, number } = takeRandom(population.live);
      const { keys, args } = commitCall(member, number, 8);
      expectStatus(await lane.call('commit', keys, args), 'COMMITTED');
      return;
    }
    const hold = this.nextHold(population);
    const { keys, args } = this.reserveCall(hold, kind === 'reserve' ? '10' : String(2 * ALLOCATED));
    if (kind === 'reserve') {
      population.live.push(hold);
    }
    expectStatus(await lane.call('reserve', keys, args), kind === 'reserve' ? 'ALLOW' : 'BUDGET_EXCEEDED');
  }

  /**
   * @param {Population} population
   * @returns {Hold}
   */
  nextHold({ members }) {
    const member = members[Math.floor(random() * members.length)];
    if (member === undefined) {
      throw new Error('a population needs a tenant');
    }
    return { member, number: this.number++ };
  }

  /** @param {Hold} hold */
  idOf({ member, number }) {
    return reservationIdOf(member, number);
  }

  /**
   * @param {Hold} hold
   * @param {string} amount
   */
  reserveCall({ member, number }, amount) {
    return reserveCall(member, number, {
      amount,
      subject: subjectOf(member),
      // The deadlines differ, so an entry may go anywhere in the index of deadlines and not only to its
      // end.
      terms: reserveTerms({ policy: '', ttlMs: Math.round(HOUR_MS * (2 + 20 * random())) }),
      limits: reserveLimits(0, 0),
    });
  }

  /**
   * @template {'create_tenant' | 'create_budget'} Name
   * @param {Name} name
   * @param {readonly import('../src/redis/scripts.ts').NamedCall<Name>[]} calls
   */
  async callMany(name, calls) {
    for (let from = 0; from < calls.length; from += BATCH) {
      const replies = await this.scripts.callMany(name, calls.slice(from, from + BATCH));
      replies.forEach((reply) => expectStatus(reply, 'CREATED'));
    }
  }
}

/** @type {(tenant: string, depth: number) => string[]} */
function nestedScopes(tenant, depth) {
  const scopes = [`tenant:${tenant}`];
  for (const level of LEVELS.slice(0, depth - 1)) {
    scopes.push(`${scopes.at(-1)}/${level}:main`);
  }
  return scopes;
}

/**
 * The subject as the script takes it.
 * @param {Member} member
 */
function subjectOf({ tenant, scopes }) {
  const levels = new Map(
    (scopes.at(-1) ?? '').split('/').map((part) => /** @type {[string, string]} */ (part.split(':'))),
  );
  return [tenant, ...LEVELS.map((level) => levels.get(level) ?? ''), 'TOKENS'].join('\u001f');
}

/** @param {Hold[]} live */
function takeRandom(live) {
  const index = Math.floor(random() * live.length);
  const [hold, last] = [live[index], live.pop()];
  if (hold === undefined || last === undefined) {
    throw new Error('there is no live reservation left');
  }
  if (index < live.length) {
    live[index] = last;
  }
  return hold;
}

/** @type {(reply: { status: string } | Error, status: string) => void} */
function expectStatus(reply, status) {
  if (reply instanceof Error || reply.status !== status) {
    throw new Error(
      `expected ${status}, got ${reply instanceof Error ? reply.message : JSON.stringify(reply)}`,
    );
  }
}

/**
 * Calls of all populations in turn, round by round, because the speed of a shared machine drifts.
 * @param {readonly Population[]} populations
 * @param {readonly Kind[]} kinds
 * @param {{ rounds: number, calls: number }} plan
 * @returns {Promise<Record<Kind, number>[][]>} µs in each round, for each population
 */
export async function roundsOf(populations, kinds, { rounds, calls }) {
  /** @type {Record<Kind, number>[][]} */
  const measured = populations.map(() => []);
  // The first round warms up.
  for (let round = 0; round <= rounds; round += 1) {
    for (const [index, population] of populations.entries()) {
      const costs = { reserve: NaN, commit: NaN, denied: NaN };
      for (const kind of kinds) {
        costs[kind] = await population.ledger.costOf(population, kind, calls);
      }
      if (round > 0) {
        measured[index]?.push(costs);
      }
    }
  }
  return measured;
}

/**
 * @param {readonly Record<Kind, number>[]} rounds
 * @param {Kind} kind
 */
export const medianCost = (rounds, kind) => median(rounds.map((costs) => costs[kind]));
