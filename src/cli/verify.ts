import 'reflect-metadata';
import { DAY_MS } from '../ledger/index.js';
import { readJson } from '../wire/index.js';

/** A page usually takes seconds, but a single tenant with millions of reservations can take minutes. */
const PAGE_TIMEOUT_MS = 600_000;

export interface VerifyOptions {
  /** Of the service, e.g. http://127.0.0.1:7878. */
  readonly baseUrl: string;
  readonly adminKey: string;
  /** All tenants by default. */
  readonly tenant?: string | undefined;
  /** The deployment that must answer. */
  readonly deployment?: string | undefined;
  readonly print: (text: string) => void;
}

/** The exit codes of `npm run verify`. A ledger with drift or with unreadable reservations is unsound. */
export const VERIFIED = { sound: 0, unsound: 1, unknown: 2 } as const;
export type Verified = (typeof VERIFIED)[keyof typeof VERIFIED];

type Drift = Readonly<Record<'tenant_id' | 'scope' | 'unit' | 'kind', string>> & {
  readonly stored?: Readonly<Record<string, unknown>>;
  readonly expected?: number | bigint;
  readonly difference?: number | bigint;
  readonly reservation_count: number;
  readonly reservations: readonly {
    readonly reservation_id: string;
    readonly amount: number | bigint;
    readonly quarantined: boolean;
  }[];
};

interface Page {
  readonly deployment_id?: string;
  readonly restored_from?: string;
  readonly tenants: number;
  readonly budgets: number;
  readonly drift: readonly Drift[];
  readonly unreadable: readonly Readonly<Record<'tenant_id' | 'reservation_id' | 'reason', string>>[];
  /** Servers before 0.7 lack it. */
  readonly journal?: readonly Readonly<Record<'tenant_id' | 'reservation_id' | 'kind', string>>[];
  readonly next_cursor?: string;
}

/** Verifies the ledger of a running Holdfast, and prints whom it asked and one line per finding. Never rejects. */
export async function verifyLedger({
  baseUrl,
  adminKey,
  tenant,
  deployment,
  print,
}: VerifyOptions): Promise<Verified> {
  const total = { tenants: 0, budgets: 0, drift: 0, unreadable: 0 };
  let asked: string | undefined;
  try {
    let cursor = '';
    do {
      const query = new URLSearchParams({ cursor, ...(tenant === undefined ? {} : { tenant_id: tenant }) });
      const page = await fetchPage(`${baseUrl}/ops/verify?${query.toString()}`, adminKey);
      if (asked === undefined) {
        asked = `${page.deployment_id ?? 'unnamed'}${page.restored_from === undefined ? '' : `, a copy of ${page.restored_from}`}`;
        print(`asked ${baseUrl}: deployment ${asked}`);
      }
      if (deployment !== undefined && deployment !== page.deployment_id) {
        throw new Error(`it is not deployment ${deployment}; another server answers at ${baseUrl}`);
      }
      page.drift.flatMap(driftLines).forEach(print);
      for (const { tenant_id, reservation_id, reason } of page.unreadable) {
        print(`unreadable reservation ${reservation_id} of ${tenant_id}: ${reason}`);
      }
      for (const { tenant_id, reservation_id, kind } of page.journal ?? []) {
        print(
          `journal of ${reservation_id.startsWith('evn_') ? 'direct debit' : 'reservation'} ${reservation_id} of ${tenant_id}: ${kind}`,
        );
      }
      total.tenants += page.tenants;
      total.budgets += page.budgets;
      total.drift += page.drift.length + (page.journal?.length ?? 0);
      total.unreadable += page.unreadable.length;
      cursor = page.next_cursor ?? '';
    } while (cursor !== '');
  } catch (error) {
    print(`the ledger at ${baseUrl} could not be verified: ${reasonOf(error)}`);
    return total.drift + total.unreadable > 0 ? VERIFIED.unsound : VERIFIED.unknown;
  }
  await tellSuperseded(`${baseUrl}/ops/usage`, adminKey, print);
  const isSound = total.drift + total.unreadable === 0;
  const found = isSound ? 'no drift' : `drift: ${total.drift}; unreadable reservations: ${total.unreadable}`;
  print(`budgets verified: ${total.budgets}; tenants: ${total.tenants}; ${found}`);
  return isSound ? VERIFIED.sound : VERIFIED.unsound;
}

interface Usage {
  readonly epochs_ms?: readonly number[];
  readonly totals: readonly Readonly<
    Record<'unit' | 'superseded' | 'superseded_count', string | number | bigint>
  >[];
}

/** Years of an archive. */
const REPORTED_MS = 3650 * DAY_MS;

/** Names the epochs of the archive, if Redis was put back, and what is superseded. A server without an archive has neither. */
async function tellSuperseded(url: string, adminKey: string, print: VerifyOptions['print']): Promise<void> {
  try {
    // eslint-disable-next-line no-restricted-syntax -- this command knows no Redis
    const report = await fetchAnswer(`${url}?from=${Date.now() - REPORTED_MS}`, adminKey);
    const { epochs_ms: epochsMs = [], totals } = report as Usage;
    for (const [index, beganMs] of epochsMs.entries()) {
      if (epochsMs.length > 1) {
        print(`epoch ${index + 1} of the archive: since ${new Date(Number(beganMs)).toISOString()}`);
      }
    }
    for (const { unit, superseded, superseded_count: count } of totals) {
      if (Number(count) > 0) {
        print(`superseded: ${count} charges of ${superseded} ${unit}`);
      }
    }
  } catch (error) {
    if (!reasonOf(error).includes('answered 501')) {
      print(`what is superseded is not known: ${reasonOf(error)}`);
    }
  }
}

const fetchPage = async (url: string, adminKey: string): Promise<Page> =>
  (await fetchAnswer(url, adminKey)) as Page;

async function fetchAnswer(url: string, adminKey: string): Promise<unknown> {
  const response = await fetch(url, {
    headers: { 'X-Admin-API-Key': adminKey },
    signal: AbortSignal.timeout(PAGE_TIMEOUT_MS),
  });
  const text = await response.text();
  if (response.status !== 200) {
    throw new Error(`GET ${new URL(url).pathname} answered ${response.status} ${text.slice(0, 300)}`);
  }
  return readJson(text);
}

function driftLines({
  tenant_id,
  scope,
  unit,
  kind,
  stored = {},
  expected,
  difference,
  reservation_count,
  reservations,
}: Drift): string[] {
  const figures = Object.entries(stored)
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(', ');
  const off = expected === undefined ? '' : `; expected ${expected}, off by ${difference}`;
  return [
    `drift at ${scope} in ${unit} of ${tenant_id}: ${kind}${off}${figures === '' ? '' : ` (${figures})`}; ${reservation_count} live reservations`,
    ...reservations.map(
      ({ reservation_id, amount, quarantined }) =>
        `  ${reservation_id} holds ${amount}${quarantined ? ', quarantined' : ''}`,
    ),
  ];
}

/** Why a request failed: `fetch` says so only in the cause of its error. */
export function reasonOf(error: unknown): string {
  const { cause, message } = error as Error;
  return cause instanceof Error ? cause.message || message : message;
}
