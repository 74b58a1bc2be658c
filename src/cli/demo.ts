import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type Answer, Api, DemoError, describe } from './api.js';
import {
  amount,
  type Balances,
  balancesIn,
  balanceTable,
  deviation,
  type Figures,
  prepareLedger,
  readBalances,
  SCOPES,
  someReserved,
  SUBJECT,
  TENANT,
  UNIT,
} from './demo-ledger.js';
import { DemoWebhook } from './demo-webhook.js';

const FIRST_HOLD = 5000;
const REALLY_USED = 3200;
const SECOND_HOLD = 2000;
const SHORT_TTL_MS = 1000;
/** How long to wait for the expiry, after the TTL of the hold and the interval of the sweeper. */
const EXPIRY_TIMEOUT_MS = 10_000;
const POLL_MS = 50;
/** Other holds on the demo's budgets may end at any time and change its figures. The round is then repeated. */
const ROUNDS = 3;

export interface DemoOptions {
  /** Of the service, e.g. http://127.0.0.1:7878. */
  readonly baseUrl: string;
  readonly adminKey: string;
  /** Where the demo's API key is kept between starts. */
  readonly dataDir: string;
  readonly sweepIntervalMs: number;
  readonly print: (text: string) => void;
}

export interface DemoResult {
  readonly apiKey: string;
  /** Part of every idempotency key of this run. */
  readonly runId: string;
}

/**
 * Shows through the public API how one reservation is committed, and how another one expires and causes a webhook. Checks every step.
 * @throws DemoError if a step is not as expected
 */
export async function runDemo(options: DemoOptions): Promise<DemoResult> {
  const runId = randomBytes(4).toString('hex');
  const apiKey = await prepareLedger({ ...options, runId });
  const webhook = await DemoWebhook.open(options);
  options.print(`Webhook  reservation.expired of ${TENANT} goes to ${webhook.url}`);
  try {
    await showRounds(new Api(options.baseUrl, { 'X-Cycles-API-Key': apiKey }), options, runId, webhook);
  } finally {
    await webhook.close();
  }
  return { apiKey, runId };
}

async function showRounds(
  api: Api,
  options: DemoOptions,
  runId: string,
  webhook: DemoWebhook,
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    const before = await readBalances('the balances', api);
    try {
      await new Round(api, options, `${runId}-${attempt}`, webhook).show(before);
      return;
    } catch (error) {
      if (!(error instanceof DemoError) || !someReserved(before) || attempt === ROUNDS) {
        throw error;
      }
      options.print(`\nThere are other holds on these budgets (${error.message}); trying again.`);
    }
  }
}

class Round {
  private step = 0;
  private latest: Balances = new Map();

  constructor(
    private readonly api: Api,
    private readonly options: DemoOptions,
    private readonly keyPrefix: string,
    private readonly webhook: DemoWebhook,
  ) {}

  async show(before: Balances): Promise<void> {
    this.latest = before;
    this.options.print(`\nThe budgets before\n${balanceTable(before)}`);
    await this.reserveAndCommit();
    const expiredId = await this.reserveAndLetExpire();
    await this.receiveWebhook(expiredId);
  }

  private async reserveAndCommit(): Promise<void> {
    const held = await this.reserve(FIRST_HOLD, { ttl_ms: 60_000 });
    this.showStep(
      `Reserve ${amount(FIRST_HOLD)} tokens: all three budgets hold them`,
      `reservation ${held.id}`,
      balancesIn('reserve', held.answer),
      {
        remaining: -FIRST_HOLD,
        reserved: FIRST_HOLD,
      },
    );
    const body = { idempotency_key: `${this.keyPrefix}-commit`, actual: { unit: UNIT, amount: REALLY_USED } };
    const committed = await this.api.expect(
      'commit',
      [200],
      'POST',
      `/v1/reservations/${held.id}/commit`,
      body,
    );
    const unused = FIRST_HOLD - REALLY_USED;
    if (
      committed.body['status'] !== 'COMMITTED' ||
      amountIn(committed, 'charged') !== REALLY_USED ||
      amountIn(committed, 'released') !== unused
    ) {
      throw new DemoError(
        `commit: expected ${REALLY_USED} charged and ${unused} released, got ${describe(committed)}`,
      );
    }
    this.showStep(
      `Commit the ${amount(REALLY_USED)} really used: ${amount(unused)} flow back`,
      'COMMITTED',
      balancesIn('commit', committed),
      {
        remaining: unused,
        reserved: -FIRST_HOLD,
        spent: REALLY_USED,
      },
    );
  }

  /** @returns the reservation that expired */
  private async reserveAndLetExpire(): Promise<string> {
    const afterCommit = this.latest;
    const held = await this.reserve(SECOND_HOLD, { ttl_ms: SHORT_TTL_MS, grace_period_ms: 0 });
    const deadline = performance.now() + SHORT_TTL_MS;
    this.showStep(
      `Reserve ${amount(SECOND_HOLD)} for one second, and walk away`,
      `reservation ${held.id}`,
      balancesIn('reserve', held.answer),
      {
        remaining: -SECOND_HOLD,
        reserved: SECOND_HOLD,
      },
    );
    // Polls balances, because reading the reservation would expire it on access. So this shows the sweeper.
    const giveUp = deadline + this.options.sweepIntervalMs + EXPIRY_TIMEOUT_MS;
    let balances = await readBalances('expiry', this.api);
    while (deviation(afterCommit, balances, {}) !== undefined && performance.now() < giveUp) {
      await delay(POLL_MS);
      balances = await readBalances('expiry', this.api);
    }
    const lateness_ms = Math.round(performance.now() - deadline);
    if (deviation(afterCommit, balances, {}) !== undefined) {
      throw new DemoError(
        `expiry: ${deviation(afterCommit, balances, {})} ${lateness_ms} ms after the deadline; does the role \`sweeper\` run?`,
      );
    }
    if (lateness_ms < -POLL_MS) {
      throw new DemoError(`expiry: the hold was given back ${-lateness_ms} ms before its deadline`);
    }
    const answer = await this.api.expect('expiry', [410], 'GET', `/v1/reservations/${held.id}`);
    if (answer.body['error'] !== 'RESERVATION_EXPIRED') {
      throw new DemoError(`expiry: expected RESERVATION_EXPIRED, got ${describe(answer)}`);
    }
    const seen = `RESERVATION_EXPIRED, seen ${Math.max(0, lateness_ms)} ms after its deadline`;
    this.showStep('Nobody commits it: the sweeper expires it and gives the budget back', seen, balances, {
      remaining: SECOND_HOLD,
      reserved: -SECOND_HOLD,
    });
    return held.id;
  }

  private async receiveWebhook(reservationId: string): Promise<void> {
    const { eventId, eventType, delay_ms } = await this.webhook.arrivalOf(reservationId);
    this.step += 1;
    this.options.print(
      `\n${this.step}  The webhook endpoint receives the event\n` +
        `   ${eventType} ${eventId} of ${reservationId}, ${amount(delay_ms)} ms after it happened\n` +
        `   X-Cycles-Signature and webhook-signature verified with the subscription's secret`,
    );
  }

  private async reserve(
    tokens: number,
    lease: Readonly<Record<string, number>>,
  ): Promise<{ id: string; answer: Answer }> {
    const answer = await this.api.expect('reserve', [200], 'POST', '/v1/reservations', {
      idempotency_key: `${this.keyPrefix}-reserve-${this.step}`,
      subject: SUBJECT,
      action: { kind: 'llm.completion', name: 'demo' },
      estimate: { unit: UNIT, amount: tokens },
      ...lease,
    });
    const { decision, reservation_id: id, affected_scopes: scopes } = answer.body;
    if (decision !== 'ALLOW' || typeof id !== 'string' || String(scopes) !== String(SCOPES)) {
      throw new DemoError(`reserve: expected ALLOW over ${SCOPES.length} scopes, got ${describe(answer)}`);
    }
    return { id, answer };
  }

  /** Prints a step and the balances after it, and checks them against those before it. */
  private showStep(title: string, outcome: string, after: Balances, change: Partial<Figures>): void {
    this.step += 1;
    this.options.print(`\n${this.step}  ${title}\n   ${outcome}\n${balanceTable(after, this.latest)}`);
    const wrong = deviation(this.latest, after, change);
    if (wrong !== undefined) {
      throw new DemoError(`step ${this.step}: ${wrong}`);
    }
    this.latest = after;
  }
}

function amountIn({ body }: Answer, field: string): unknown {
  const found = body[field];
  return typeof found === 'object' && found !== null && 'amount' in found ? found.amount : undefined;
}

export interface NextStepsOptions {
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly runId: string;
  /** The file of the generated admin key; absent if ADMIN_API_KEY is set. */
  readonly adminKeyFile?: string | undefined;
}

/** Commands to paste into a shell. They contain no comments, which an interactive zsh would run as commands. */
export function nextSteps({ baseUrl, apiKey, runId, adminKeyFile }: NextStepsOptions): string {
  const key = '-H "X-Cycles-API-Key: $KEY"';
  const json = "-H 'Content-Type: application/json'";
  const reserve = {
    idempotency_key: `hold-${runId}`,
    subject: SUBJECT,
    action: { kind: 'llm.completion', name: 'by-hand' },
    estimate: { unit: UNIT, amount: 1500 },
    ttl_ms: 60_000,
  };
  const commit = { idempotency_key: `commit-${runId}`, actual: { unit: UNIT, amount: 900 } };
  const adminKey =
    adminKeyFile === undefined ? '$ADMIN_API_KEY' : `$(cat '${adminKeyFile.replaceAll("'", `'\\''`)}')`;
  return `
Now you. Paste these two first:

    URL=${baseUrl}
    KEY=${apiKey}

What is left at each scope:

    curl -sw '\\n' "$URL/v1/balances?tenant=${TENANT}&include_children=true" ${key}

Hold 1,500 tokens for a minute; the same line again replays the answer and holds nothing more:

    HOLD=$(curl -s "$URL/v1/reservations" ${key} ${json} -d '${JSON.stringify(reserve)}'); echo "$HOLD"

Commit the 900 really used, within that minute:

    ID=$(echo "$HOLD" | sed 's/.*"reservation_id":"\\([^"]*\\)".*/\\1/')
    curl -sw '\\n' "$URL/v1/reservations/$ID/commit" ${key} ${json} -d '${JSON.stringify(commit)}'

The operator's view, and the API to read in a browser at ${baseUrl}/docs:

    curl -sw '\\n' "$URL/v1/admin/tenants" -H "X-Admin-API-Key: ${adminKey}"
    curl -s "$URL/metrics" -H "X-Admin-API-Key: ${adminKey}" | grep cycles_reservations

The same in a browser: open ${baseUrl}/console and log in with the admin key, which is ${
    adminKeyFile === undefined ? 'the value of ADMIN_API_KEY' : `in ${adminKeyFile}`
  }.`;
}
