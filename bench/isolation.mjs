// What one tenant can do to another: the one attacks at full tilt, the other reserves at a fixed rate, alone and then beside the attack.
import { fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { unlessShort } from './duration.mjs';
import { isolationResult } from './isolation-report.mjs';
import { startNameServer } from './name-server.mjs';
import { say, startLoad } from './reserve.mjs';
import { adminHeaders, askAsAdmin, provision, startService } from './service.mjs';
import { Holds } from './sweep-holds.mjs';

const RATE = unlessShort(200, 100);
const SECONDS = unlessShort(10, 2);
const WARM_UP_SECONDS = unlessShort(3, 1);
/** The attack starts this long before the victim, so that the figures show it under way. */
const HEAD_START_MS = 500;
const PREPARATION_TIMEOUT_MS = 600_000;
const PREPARING_CONNECTIONS = 32;
const SLOWLOG_FROM_US = 1000;
const SLOWLOG_ENTRIES = 1024;
const HOLDS = unlessShort(100_000, 2000);
const RESERVATIONS = unlessShort(40_000, 1000);
const BUDGETS = unlessShort(100_000, 1000);
/** What 0.5.0 took; a server that refuses it gets what it says that it takes. */
const METADATA_BYTES = [1_000_000, 16_000];
const SUBSCRIPTIONS = 130;
const UNRESOLVED_SUBSCRIPTIONS = 40;
const DELIVERIES_PER_SECOND = 20;
const HOUR_MS = 3_600_000;

export async function measure() {
  const rounds = [];
  let store;
  for (const attack of ATTACKS) {
    const round = await measureAttack(attack);
    store ??= round.store;
    rounds.push(round);
  }
  return isolationResult(store, { rate: RATE, seconds: SECONDS, rounds });
}

/** Every attack has a service of its own, so that what one leaves behind does not count for the next. */
async function measureAttack(attack) {
  const names = attack.usesNames ? await startNameServer() : undefined;
  const service = await startService(names === undefined ? {} : { WEBHOOK_DNS_SERVERS: names.address });
  const redis = new Redis({ path: service.socket, maxRetriesPerRequest: 1 });
  redis.on('error', () => undefined);
  const [victimLoad, attackLoad] = [
    startLoad('./http-load.mjs'),
    startLoad('./isolation-attack.mjs', PREPARATION_TIMEOUT_MS),
  ];
  try {
    await redis.config('SET', 'auto-aof-rewrite-percentage', '0');
    await redis.config('SET', 'slowlog-max-len', SLOWLOG_ENTRIES);
    const bench = new IsolationBenchmark({ service, redis, victimLoad, attackLoad, names });
    return await bench.measure(attack);
  } finally {
    victimLoad.stop();
    attackLoad.stop();
    redis.disconnect();
    await service.stop();
    names?.stop();
  }
}

class IsolationBenchmark {
  next = 0;

  constructor(parts) {
    Object.assign(this, parts);
  }

  async measure(attack) {
    say(`${attack.name}: preparing`);
    const attacker = await provision(this.service.port, 'attacker');
    this.victim = { ...(await provision(this.service.port, 'victim')), run: randomBytes(4).toString('hex') };
    const plan = await attack.prepare(this, attacker);
    say(`${attack.name}: the other tenant alone`);
    await this.reserves(WARM_UP_SECONDS);
    const alone = await this.phase(undefined, plan);
    say(`${attack.name}: the other tenant beside it`);
    plan.begin?.();
    const beside = await this.phase(plan.load, plan);
    await plan.end?.();
    return { name: attack.name, of: plan.of, alone, beside, store: await this.store() };
  }

  reserves(seconds) {
    return this.victimLoad.ask({
      kind: 'watch',
      port: this.service.port,
      rate: RATE,
      seconds,
      target: this.victim,
      first: this.next,
    });
  }

  /** One phase of the victim, with or without the attack beside it, and the longest command that Redis ran meanwhile. */
  async phase(load, plan) {
    await this.redis.config('SET', 'slowlog-log-slower-than', SLOWLOG_FROM_US);
    await this.redis.slowlog('RESET');
    const attacked =
      load === undefined
        ? undefined
        : this.attackLoad.ask({ port: this.service.port, seconds: SECONDS + 1, ...load });
    await delay(HEAD_START_MS);
    const [result, deliveries] = await Promise.all([this.reserves(SECONDS), plan.deliveries?.()]);
    this.next = result.next;
    const { statuses } = (await attacked) ?? {};
    const longest = await this.longestCommand();
    return { ...result, statuses, longest, deliveries };
  }

  async longestCommand() {
    const entries = await this.redis.slowlog('GET', SLOWLOG_ENTRIES);
    await this.redis.config('SET', 'slowlog-log-slower-than', -1);
    const [, , us, words] = entries.reduce(
      (most, entry) => (entry[2] > most[2] ? entry : most),
      [0, 0, 0, []],
    );
    // A function is named after its script, with a hash of its text behind it.
    const name =
      words[0]?.toUpperCase() === 'FCALL'
        ? words[1].replace(/^holdfast_/, '').replace(/_[0-9a-f]{12}$/, '')
        : words.slice(0, 2).join(' ');
    return { ms: us / 1000, name };
  }

  async store() {
    const info = await this.redis.info('server');
    return `Redis ${/^redis_version:(\S+)/m.exec(info)?.[1]} embedded`;
  }

  /** Makes requests once each, and says how many were taken. */
  async send(requests) {
    const { statuses } = await this.attackLoad.ask({
      port: this.service.port,
      connections: PREPARING_CONNECTIONS,
      seconds: PREPARATION_TIMEOUT_MS / 1000,
      once: true,
      requests,
    });
    return (statuses['200'] ?? 0) + (statuses['201'] ?? 0);
  }

  /** Runs `work` with holds of the tenants, made by the reserve script itself. */
  async withHolds(tenants, work) {
    const holds = new Holds(this.service.socket, tenants, randomBytes(4).toString('hex'));
    try {
      return await work(holds);
    } finally {
      holds.close();
    }
  }
}

const asAdmin = (method, path, body) => ({ method, path, headers: adminHeaders, body });
const asTenant = ({ apiKey }, method, path, body) => ({
  method,
  path,
  headers: { 'x-cycles-api-key': apiKey },
  body,
});
const budgetOf = (tenant, below, metadata) => ({
  tenant_id: tenant,
  scope: `tenant:${tenant}${below}`,
  unit: 'TOKENS',
  allocated: { unit: 'TOKENS', amount: 1000 },
  ...(metadata === undefined ? {} : { metadata }),
});
const metadataOf = (bytes) => ({ text: 'm'.repeat(bytes) });

/** Sends what `requestsWith(bytes)` makes with the largest metadata that is taken; says how many were made, and with how much. */
async function makeWithMetadata(bench, requestsWith) {
  for (const bytes of METADATA_BYTES) {
    const made = await bench.send(requestsWith(bytes));
    if (made > 0) {
      return { made, bytes };
    }
  }
  throw new Error('no size of metadata was taken');
}

const whole = (count) => count.toLocaleString('en-US');

const ATTACKS = [
  {
    name: 'a close with many holds of one deadline',
    async prepare(bench, attacker) {
      await bench.withHolds([attacker], async (holds) => {
        await holds.make(HOLDS, { ttlMs: HOUR_MS });
        await holds.shareDeadline(attacker, Date.now() + HOUR_MS);
      });
      const close = asAdmin('PATCH', `/v1/admin/tenants/${attacker.tenant}`, { status: 'CLOSED' });
      return { of: `${whole(HOLDS)} holds`, load: { connections: 1, requests: [close] } };
    },
  },
  {
    name: 'lists of budgets with large metadata',
    async prepare(bench, attacker) {
      const { made, bytes } = await makeWithMetadata(bench, (size) =>
        Array.from({ length: 120 }, (_, number) =>
          asAdmin(
            'POST',
            '/v1/admin/budgets',
            budgetOf(attacker.tenant, `/app:a${number}`, metadataOf(size)),
          ),
        ),
      );
      const list = asTenant(attacker, 'GET', '/v1/admin/budgets?limit=1');
      return {
        of: `${made} budgets of ${whole(bytes)} bytes, 16 connections`,
        load: { connections: 16, requests: [list] },
      };
    },
  },
  {
    name: 'changes of subscriptions with large metadata',
    async prepare(bench, attacker) {
      await askAsAdmin(bench.service.port, 'PUT', '/v1/admin/config/webhook-security', {
        blocked_cidr_ranges: [],
        allow_http: true,
      });
      const path = `/v1/admin/webhooks?tenant_id=${attacker.tenant}`;
      const { made, bytes } = await makeWithMetadata(bench, (size) =>
        Array.from({ length: SUBSCRIPTIONS }, () =>
          asAdmin('POST', path, {
            url: 'http://127.0.0.1:9/',
            event_types: ['budget.funded'],
            metadata: metadataOf(size),
          }),
        ),
      );
      const { subscriptions } = await askAsAdmin(bench.service.port, 'GET', `${path}&limit=1`);
      const change = asAdmin('PATCH', `/v1/admin/webhooks/${subscriptions[0].subscription_id}`, {
        event_types: ['budget.funded', 'budget.updated'],
      });
      const changeBack = asAdmin('PATCH', `/v1/admin/webhooks/${subscriptions[0].subscription_id}`, {
        event_types: ['budget.funded'],
      });
      const denied = asTenant(attacker, 'POST', '/v1/reservations', {
        idempotency_key: 'too-much',
        subject: { tenant: attacker.tenant },
        action: { kind: 'llm', name: 'gpt' },
        estimate: { unit: 'TOKENS', amount: 1e15 + 1 },
      });
      return {
        of: `${made} subscriptions of ${whole(bytes)} bytes, 8 connections`,
        load: { connections: 8, requests: [change, denied, changeBack, denied] },
      };
    },
  },
  {
    name: 'balances of a scope that does not exist',
    async prepare(bench, attacker) {
      const requests = Array.from({ length: BUDGETS }, (_, number) =>
        asAdmin('POST', '/v1/admin/budgets', budgetOf(attacker.tenant, `/app:a${number}`)),
      );
      const made = await bench.send(requests);
      const balances = asTenant(attacker, 'GET', `/v1/balances?tenant=${attacker.tenant}&agent=nobody`);
      return { of: `${whole(made)} budgets, 8 connections`, load: { connections: 8, requests: [balances] } };
    },
  },
  {
    name: 'sorted lists of reservations',
    async prepare(bench, attacker) {
      await bench.withHolds([attacker], (holds) => holds.make(RESERVATIONS, { ttlMs: HOUR_MS }));
      const list = asTenant(attacker, 'GET', '/v1/reservations?sort_by=reserved&limit=1');
      return {
        of: `${whole(RESERVATIONS)} reservations, 60 connections`,
        load: { connections: 60, requests: [list] },
      };
    },
  },
  {
    name: 'subscriptions whose host names do not resolve',
    usesNames: true,
    async prepare(bench, attacker) {
      await askAsAdmin(bench.service.port, 'PUT', '/v1/admin/config/webhook-security', {
        blocked_cidr_ranges: [],
        allow_http: true,
      });
      const subscribe = (tenant, url) =>
        asAdmin('POST', `/v1/admin/webhooks?tenant_id=${tenant}`, {
          url,
          event_types: ['reservation.expired', 'reservation.denied'],
        });
      const made = await bench.send(
        Array.from({ length: UNRESOLVED_SUBSCRIPTIONS }, (_, number) =>
          subscribe(attacker.tenant, `http://host-${number}.example:9/`),
        ),
      );
      const endpoint = fork(fileURLToPath(new URL('./webhook-endpoint.mjs', import.meta.url)));
      const [{ port }] = await once(endpoint, 'message');
      await bench.send([subscribe(bench.victim.tenant, `http://127.0.0.1:${port}/victim`)]);
      const denied = asTenant(attacker, 'POST', '/v1/reservations', {
        idempotency_key: 'too-much',
        subject: { tenant: attacker.tenant },
        action: { kind: 'llm', name: 'gpt' },
        estimate: { unit: 'TOKENS', amount: 1e15 + 1 },
      });
      return {
        of: `${made} subscriptions, 4 connections`,
        load: { connections: 4, requests: [denied] },
        begin: () => bench.names.silence(),
        deliveries: () => deliveriesOf(bench, endpoint),
        end: () => endpoint.disconnect(),
      };
    },
  },
];

/** Holds of the victim that expire at a steady pace, each timed from its expiry to its arrival at the victim's endpoint. */
async function deliveriesOf(bench, endpoint) {
  const ask = async (forget) => {
    endpoint.send({ forget });
    const [{ noted }] = await once(endpoint, 'message');
    return noted.flatMap(({ delays }) => delays).sort((a, b) => a - b);
  };
  await ask(true);
  const count = DELIVERIES_PER_SECOND * SECONDS;
  await bench.withHolds([bench.victim], async (holds) => {
    const began = performance.now();
    for (let number = 0; number < count; number += 1) {
      await holds.make(1, { ttlMs: 1000 });
      await delay(Math.max(0, began + ((number + 1) * 1000) / DELIVERIES_PER_SECOND - performance.now()));
    }
  });
  const deadline = performance.now() + 10_000;
  let delays = await ask(false);
  while (delays.length < count && performance.now() < deadline) {
    await delay(100);
    delays = await ask(false);
  }
  return {
    due: count,
    count: delays.length,
    p99_ms: delays[Math.max(0, Math.ceil(delays.length * 0.99) - 1)],
  };
}
