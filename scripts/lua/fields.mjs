// Part of npm run lint: only lua/lib/field.lua contains the stored names of a reservation's fields.
import { readFileSync, readdirSync } from 'node:fs';
import { join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadTools } from './load.mjs';

const { fieldRows } = await loadTools();

const LUA = fileURLToPath(new URL('../../lua/', import.meta.url));
const FIELDS = 'lib/field.lua';
/** Files about records of other kinds: subscriptions and deliveries, events, audit rows, and lists of several kinds. */
const OTHER_RECORDS = new RegExp(
  `^(?:${[
    'webhooks/.*',
    'events/.*',
    'overview/.*',
    'spikes/.*',
    'audit/list_audit_log',
    'audit/lib/expiration',
    'governance/lib/disable_webhook_of_closed_tenant',
    'lib/(?:webhook_record|event_writer|audit_log|audit_row|audit_index|listing)',
  ].join('|')})\\.lua$`,
);

/** @returns {string[]} a line for each stored name that is spelled out elsewhere */
export function fieldProblems(folder = LUA) {
  const nameOf = new Map(
    fieldRows(readFileSync(join(folder, FIELDS), 'utf8')).map(({ name, stored }) => [stored, name]),
  );
  const stored = [...nameOf.keys()].join('|');
  // 'am' as a string, record.am, and { am = ... }. The prefix of extensions is a single letter, which as a
  // name may mean anything.
  const spelled = new RegExp(
    `'(${stored})'|\\.((?!x\\b)(?:${stored}))\\b|[{,] *((?!x\\b)(?:${stored})) =`,
    'g',
  );
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((path) => path.split(sep).join('/'))
    .filter((path) => path.endsWith('.lua') && path !== FIELDS && !OTHER_RECORDS.test(path))
    .sort()
    .flatMap((path) =>
      readFileSync(join(folder, path), 'utf8')
        .split('\n')
        .flatMap((line, index) =>
          [...line.replace(/^\s*--.*/, '').matchAll(spelled)].map(([, text, member, key]) => {
            const name = text ?? member ?? key ?? '';
            return `lua/${path}:${index + 1}: write field.${nameOf.get(name)} for '${name}' (lua/${FIELDS})`;
          }),
        ),
    );
}
