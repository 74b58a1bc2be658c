import { stringifyJson } from '../http/index.js';
import { parseAmount } from '../ledger/index.js';
import type { Expiration } from './expiration-feed.js';

type Cell = string | number | bigint | undefined;

/** The members of a row, in the order of the CSV's columns, each from its expiration; undefined where it does not apply. */
const COLUMNS: Readonly<Record<string, (expiration: Expiration) => Cell>> = {
  at_ms: ({ atMs }) => atMs,
  at: ({ atMs }) => new Date(atMs).toISOString(),
  state: ({ state }) => state,
  reservation_id: ({ event }) => event.get('reservation_id'),
  tenant_id: ({ event }) => event.get('tn'),
  scope: ({ event }) => event.get('sc'),
  unit: ({ event }) => event.get('unit'),
  amount: amountOf('estimated_amount'),
  created_at_ms: amountOf('created_at'),
  ttl_ms: amountOf('ttl_ms'),
  extensions_used: amountOf('extensions_used'),
  reason: ({ event }) => event.get('reason'),
  event_id: ({ eventId }) => eventId,
  request_id: ({ event }) => event.get('rq'),
  trace_id: ({ event }) => event.get('tr')?.split('-', 1)[0],
};

function amountOf(name: string): (expiration: Expiration) => Cell {
  return ({ event }) => {
    const text = event.get(name);
    return text === undefined ? undefined : parseAmount(text);
  };
}

/** One row as JSON text. */
export function rowJson(expiration: Expiration): string {
  return stringifyJson(
    Object.fromEntries(Object.entries(COLUMNS).map(([name, read]) => [name, read(expiration)])),
  );
}

export const CSV_HEAD = `${Object.keys(COLUMNS).join(',')}\r\n`;

/** One row as a line of CSV (RFC 4180). */
export function rowCsv(expiration: Expiration): string {
  return `${Object.values(COLUMNS)
    .map((read) => cell(read(expiration)))
    .join(',')}\r\n`;
}

function cell(value: Cell): string {
  const text = value === undefined ? '' : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
