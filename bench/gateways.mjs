// How hard a budget is: LiteLLM's own in its default and its strict mode, and Holdfast's behind its callback, with the same provider.
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { SetupError } from '../scripts/install.mjs';
import { inTurn } from './client.mjs';
import { unlessShort } from './duration.mjs';
import { GatewayWorld, eventually } from './gateway-world.mjs';
import { aim, hundredths, median, say, tableOf } from './report.mjs';
import { askAsAdmin, startService } from './service.mjs';

/**
 * @typedef {Awaited<ReturnType<GatewayWorld['upstream']>>} Upstream
 * @typedef {Awaited<ReturnType<GatewayWorld['proxy']>>} Proxy
 *
 * A gateway under one authority. `allot` gives a team its budget in USD_MICROCENTS, and `lapse` resolves when what a killed proxy had
 * reserved has lapsed.
 * @typedef {object} Side
 * @property {string} name
 * @property {Upstream} upstream
 * @property {() => Promise<Proxy>} start
 * @property {(team: string, amount: number) => Promise<void>} allot
 * @property {() => Promise<unknown>} stopAuthority
 * @property {(team: string) => Promise<unknown>} lapse
 */

/** About as many as LiteLLM counts in the requests below, so that an estimate is close to the cost. */
const TOKENS_IN = 36;
const TOKENS_OUT = 100;
/** What a call of gpt-4o costs, in USD_MICROCENTS. A request is estimated at a little less or more, by the count of its tokens. */
const COST = 250 * TOKENS_IN + 1000 * TOKENS_OUT;
const BUDGET = 50 * COST;
const CROWD = 200;
const IN_FLIGHT = 48;
const WITHOUT_AUTHORITY = unlessShort(300, 60);
const TRAFFIC = 100;
const CONNECTIONS = 20;
/** Longer than the first traffic after a kill takes, which is to meet the holds of the killed proxy. */
const TTL_S = 30;
const LATENCY_PAIRS = unlessShort(3, 1);
/** In each of them. Odd, so that there is a median. */
const LATENCY_CALLS = unlessShort(101, 21);
const PARTS = ['authorities', 'policies', 'latency'];
const TEAMS = ['crowd', 'turns', 'away', 'killed', 'idle'];

/**
 * @param {{ only?: string }} options
 * @returns {Promise<import('./types.ts').Measured>}
 */
export const measure = ({ only }) =>
  GatewayWorld.with(async (world) => {
    if (only !== undefined && !PARTS.includes(only)) {
      throw new SetupError(`--only=${only}: give one of ${PARTS.join(', ')}`);
    }
    const does = (/** @type {string} */ part) => only === undefined || only === part;
    const upstream = await world.upstream();
    const sides = [];
    if (does('authorities')) {
      sides.push(
        await litellmSide(world, upstream, "LiteLLM's default", {}),
        await litellmSide(world, upstream, 'its strict mode', { fail_closed_budget_enforcement: true }),
        await holdfastSide(world, upstream, 'Holdfast, estimate', 'estimate'),
      );
    }
    if (does('policies')) {
      sides.push(
        await holdfastSide(world, upstream, 'Holdfast, input', 'input'),
        await holdfastSide(world, upstream, 'Holdfast, release', 'release'),
      );
    }
    const shares = [];
    for (const side of sides) {
      shares.push({ name: side.name, ...(await sharesOf(side)) });
      say(`${side.name}: ${JSON.stringify(shares.at(-1))}`);
    }
    const added = does('latency') ? await measureLatency(world, upstream) : [];
    const [text, unit] = [hundredths, ' ms'];
    const version = execFileSync(world.python, [
      '-c',
      'from importlib.metadata import version; print(version("litellm"))',
    ]);
    return {
      title: 'Gateways',
      subject: `What the provider billed, as a share of a budget of 50 calls, with LiteLLM ${String(version).trim()} before a made-up provider. The word behind Holdfast is its orphan policy.`,
      store: 'counters of LiteLLM in a Redis of their own, without a database',
      tables: shares.length === 0 ? [] : [sharesTable(shares)],
      figures:
        added.length === 0
          ? []
          : [aim('added to a call by the callback, median', added, { text, unit, atMost: 10 })],
    };
  });

/** @param {Side} side */
async function sharesOf(side) {
  const { upstream } = side;
  let proxy = await side.start();
  const tag = () => randomBytes(8).toString('hex');
  const billed = async (/** @type {string} */ of) =>
    (await upstream.books()).billed.filter((one) => one.tag === of).length * COST;

  say(`${side.name}: ${CROWD} calls at once`);
  const crowd = tag();
  await side.allot('crowd', BUDGET);
  const calls = Array.from({ length: CROWD }, () => call(proxy, 'crowd', { tag: crowd, delay_ms: 1500 }));
  await Promise.all(calls);

  say(`${side.name}: four in turn`);
  const turns = tag();
  const small = Math.round(COST / 0.79);
  await side.allot('turns', small);
  for (let turn = 0; turn < 4; turn += 1) {
    await call(proxy, 'turns', { tag: turns });
  }

  say(`${side.name}: killed with ${IN_FLIGHT} calls in flight`);
  const killed = tag();
  await side.allot('killed', BUDGET);
  // A start may take longer than what the killed one had reserved is held.
  const next = await side.start();
  let [ended, isAlive] = [0, true];
  const lost = Array.from({ length: IN_FLIGHT }, async () => {
    // A connection that the proxy closed because it was idle breaks without having reached it.
    while ((await call(proxy, 'killed', { tag: killed, wait: true })) === 0 && isAlive);
    ended += 1;
  });
  await eventually(async () => ((await upstream.books()).calls[killed] ?? 0) + ended >= IN_FLIGHT);
  isAlive = false;
  await proxy.kill();
  await Promise.all(lost);
  await upstream.go();
  proxy = next;
  await traffic(proxy, 'killed', TRAFFIC, killed);
  const atOnce = await billed(killed);
  await side.lapse('killed');
  await traffic(proxy, 'killed', TRAFFIC, killed);
  const later = await billed(killed);

  say(`${side.name}: the authority is away`);
  const away = tag();
  await side.allot('away', BUDGET);
  await call(proxy, 'away', { tag: tag() });
  await side.stopAuthority();
  const answers = await traffic(proxy, 'away', WITHOUT_AUTHORITY, away);
  const without = answers.filter((status) => status === 503).length;
  const atAway = await billed(away);
  await proxy.kill();
  return {
    crowd: share(await billed(crowd), BUDGET),
    turns: share(await billed(turns), small),
    away: without === answers.length ? 'all 503' : share(atAway, BUDGET),
    killedAtOnce: share(atOnce, BUDGET),
    killedLater: share(later, BUDGET),
  };
}

/**
 * @param {Proxy} proxy
 * @param {string} team
 * @param {Record<string, unknown>} orders
 * @returns {Promise<number>} the status, or 0 if the connection broke
 */
async function call(proxy, team, orders) {
  const content = JSON.stringify({ prompt_tokens: TOKENS_IN, completion_tokens: TOKENS_OUT, ...orders });
  const body = { model: 'model', messages: [{ role: 'user', content }], max_tokens: TOKENS_OUT };
  try {
    const answer = await fetch(`${proxy.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer sk-${team}.user`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    await answer.text();
    return answer.status;
  } catch {
    return 0;
  }
}

/**
 * @param {Proxy} proxy
 * @param {string} team
 * @param {number} count
 * @param {string} tag
 */
async function traffic(proxy, team, count, tag) {
  /** @type {number[]} */
  const statuses = [];
  await inTurn([...Array(count).keys()], CONNECTIONS, async () => {
    statuses.push(await call(proxy, team, { tag }));
  });
  return statuses;
}

/**
 * @param {Upstream} upstream
 * @param {Record<string, unknown>} settings
 * @param {Record<string, unknown>} general
 */
const configOf = ({ url }, settings, general) => ({
  model_list: [
    {
      model_name: 'model',
      litellm_params: { model: 'openai/gpt-4o', api_key: 'none', api_base: `${url}/v1` },
    },
  ],
  router_settings: { num_retries: 0 },
  litellm_settings: settings,
  general_settings: {
    custom_auth: 'auth.user_api_key_auth',
    master_key: `sk-${randomBytes(32).toString('hex')}`,
    ...general,
  },
});

/**
 * @param {GatewayWorld} world
 * @param {Upstream} upstream
 * @param {string} name
 * @param {Record<string, unknown>} general
 * @returns {Promise<Side>}
 */
async function litellmSide(world, upstream, name, general) {
  const redis = await world.redis();
  const budgets = Object.fromEntries(TEAMS.map((team) => [team, BUDGET / 1e8]));
  budgets.turns = Math.round(COST / 0.79) / 1e8;
  const cache = { type: 'redis', host: '127.0.0.1', port: redis.port, supported_call_types: [] };
  const config = configOf(
    upstream,
    { cache: true, cache_params: cache },
    { custom_auth_run_common_checks: true, ...general },
  );
  return {
    name,
    upstream,
    start: () => world.proxy(config, { KEY_BUDGETS: JSON.stringify(budgets) }),
    allot: () => Promise.resolve(),
    stopAuthority: redis.stop,
    lapse: () => world.lapsed(redis.port),
  };
}

/**
 * @param {GatewayWorld} world
 * @param {Upstream} upstream
 * @param {string} name
 * @param {string} policy
 * @returns {Promise<Side>}
 */
async function holdfastSide(world, upstream, name, policy) {
  const service = await startService();
  world.ends.push(service.stop);
  const admin = (/** @type {string} */ path, /** @type {unknown} */ body) =>
    askAsAdmin(service.port, 'POST', path, body);
  await admin('/v1/admin/tenants', { tenant_id: 'bench', name: 'bench' });
  const { key_secret: key } = await admin('/v1/admin/api-keys', { tenant_id: 'bench', name: 'gateway' });
  const unit = 'USD_MICROCENTS';
  const env = {
    HOLDFAST_URL: `http://127.0.0.1:${service.port}`,
    HOLDFAST_API_KEY: String(key),
    HOLDFAST_ORPHAN_POLICY: policy,
    HOLDFAST_TTL_SECONDS: String(TTL_S),
  };
  return {
    name,
    upstream,
    start: () => world.proxy(configOf(upstream, { callbacks: ['holdfast_litellm.budget'] }, {}), env),
    allot: async (team, amount) => {
      const scope = `tenant:bench/workspace:${team}`;
      await admin('/v1/admin/budgets', { tenant_id: 'bench', scope, unit, allocated: { unit, amount } });
    },
    stopAuthority: service.stop,
    lapse: (team) =>
      eventually(async () => {
        const found = await askAsAdmin(
          service.port,
          'GET',
          `/v1/admin/budgets?tenant_id=bench&scope_prefix=tenant:bench/workspace:${team}`,
        );
        const { ledgers } = /** @type {{ ledgers: { reserved: { amount: number } }[] }} */ (found);
        return ledgers.every(({ reserved }) => reserved.amount === 0);
      }),
  };
}

/**
 * What the callback adds to the time of a call: the difference of the medians of two proxies, asked in turn.
 * @param {GatewayWorld} world
 * @param {Upstream} upstream
 */
async function measureLatency(world, upstream) {
  const side = await holdfastSide(world, upstream, 'Holdfast', 'estimate');
  await side.allot('crowd', 1e12);
  const [bare, budgeted] = await Promise.all([world.proxy(configOf(upstream, {}, {}), {}), side.start()]);
  say('latency');
  const added = [];
  for (let pair = 0; pair <= LATENCY_PAIRS; pair += 1) {
    /** @type {[number[], number[]]} */
    const [without, withIt] = [[], []];
    for (let turn = 0; turn < LATENCY_CALLS; turn += 1) {
      without.push(await timed(() => call(bare, 'crowd', {})));
      withIt.push(await timed(() => call(budgeted, 'crowd', {})));
    }
    // The first one warms up both.
    if (pair > 0) {
      added.push(median(withIt) - median(without));
    }
  }
  return added;
}

/** @param {() => Promise<number>} work */
async function timed(work) {
  const start = performance.now();
  const status = await work();
  if (status !== 200) {
    throw new Error(`a call was answered with ${status}`);
  }
  return performance.now() - start;
}

/** @type {(amount: number, of: number) => string} */
const share = (amount, of) => `${Math.round((100 * amount) / of)} %`;

/** @param {(Awaited<ReturnType<typeof sharesOf>> & { name: string })[]} measured */
function sharesTable(measured) {
  /** @type {[string, 'crowd' | 'turns' | 'away' | 'killedAtOnce' | 'killedLater'][]} */
  const rows = [
    [`${CROWD} calls at once`, 'crowd'],
    ['4 in turn, each 79 % of the budget', 'turns'],
    [`the authority is away, ${WITHOUT_AUTHORITY} calls`, 'away'],
    [`killed with ${IN_FLIGHT} calls in flight, then traffic`, 'killedAtOnce'],
    ['the same, and traffic again when what was reserved has lapsed', 'killedLater'],
  ];
  /** @type {Record<string, (row: (typeof rows)[number]) => string>} */
  const columns = { 'billed, of the budget': ([title]) => title };
  for (const one of measured) {
    columns[one.name] = ([, name]) => one[name];
  }
  return tableOf(rows, columns, 1);
}
