import { readFileSync, readdirSync } from 'node:fs';
import { sep } from 'node:path';
import { expect, test } from '@jest/globals';
import { code } from '../support/script-text.js';

const LUA = new URL('../../lua/', import.meta.url);

/** Calls without a limit of their own, by file and command, with what bounds them anyway. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  'census HSCAN':
    'a step has a COUNT; a hash that is returned at once has at most hash-max-listpack-entries fields',
  'census ZSCAN': 'likewise',
  'find_webhook HGETALL': 'one record',
  'lease_announce ZRANGE': 'the instances of one deployment',
  'lease_instances ZRANGEBYSCORE': 'the instances of one deployment',
  'lib/listing HGETALL': 'one record, whose free texts have been found to be short',
  'lib/listing HKEYS': 'the names of one record',
  'lib/owned_counts HGETALL': 'the sums of one tenant, 32 at most',
  'lib/owned_counts HKEYS': 'likewise',
  'lib/hold_form HGETALL': 'one record; to read many, use short_fields',
  'lib/webhook_record HGETALL': 'one record',
  'lib/webhook_record HKEYS': 'fifty counted thresholds at most',
  'list_credits HGETALL': 'records of the 64 credits of a budget, and of a limited number of ended ones',
  'list_deliveries HGETALL': 'records of short fields',
  'list_deliveries ZRANGEBYSCORE':
    'the deliveries of one instant, which one run of queue_deliveries or replay_events made',
  'list_deliveries ZREVRANGEBYSCORE': 'likewise',
  'update_credit HGETALL': 'one record',
  'update_policy HGETALL': 'one record',
  'void_credit HGETALL': 'one record',
  'set_budget_template HGETALL': 'one record',
};

const UNBOUNDED = [
  'SMEMBERS',
  'HVALS',
  'KEYS',
  'SCAN',
  'SSCAN',
  'HSCAN',
  'ZSCAN',
  'SORT',
  'SUNION',
  'SINTER',
  'SDIFF',
  'ZUNION',
  'ZINTER',
  'ZDIFF',
];
const WHOLE = ['HGETALL', 'HKEYS', ...UNBOUNDED];

interface Call {
  readonly file: string;
  readonly command: string;
  readonly text: string;
  /**
   * Whether the reply consists of the call's result after a status word: the record that the script is about.
   */
  readonly isReply: boolean;
}

/** Scripts by name, parts as lib/<name>. A script's folder does not matter for what it reads. */
const paths = new Map(
  readdirSync(LUA, { recursive: true, encoding: 'utf8' })
    .map((path) => path.split(sep).join('/'))
    .filter((path) => path.endsWith('.lua'))
    .map((path) => [path.replace(/^(?!lib\/)[^/]+\//, '').slice(0, -'.lua'.length), path]),
);
const files = [...paths.keys()];

function textOf(file: string): string {
  return code(readFileSync(new URL(paths.get(file) as string, LUA), 'utf8'));
}

/** The commands that a script runs, with their arguments up to the closing parenthesis. */
function callsIn(file: string): Call[] {
  const text = textOf(file);
  return [...text.matchAll(/redis\.p?call\('([A-Z]+)'/g)].map(({ index, 1: command = '' }) => {
    // Parentheses in strings do not count: '(' starts an exclusive bound.
    const plain = text.slice(index).replace(/'[^'\n]*'/g, (quoted) => '_'.repeat(quoted.length));
    let [size, depth] = [plain.indexOf('('), 0];
    do {
      depth += plain[size] === '(' ? 1 : plain[size] === ')' ? -1 : 0;
      size += 1;
    } while (depth > 0 && size < plain.length);
    const line = text.slice(text.lastIndexOf('\n', index) + 1, index);
    return {
      file,
      command,
      text: text.slice(index, index + size),
      isReply: /^\s*return \{.*unpack\($/.test(line),
    };
  });
}

function isBounded({ command, text, isReply }: Call): boolean {
  if (/^Z(REV)?RANGEBY/.test(command)) {
    return text.includes("'LIMIT'");
  }
  if (/^X(REV)?RANGE$/.test(command)) {
    const [, , from, to] = text.split(/,\s*/);
    return text.includes("'COUNT'") || from === to?.replace(/\)$/, '');
  }
  if (command === 'XREADGROUP' || command === 'XREAD') {
    return text.includes("'COUNT'");
  }
  if (/^(Z(REV)?|L)RANGE$/.test(command)) {
    return !/-1\b/.test(text.replace(/- 1\b/g, ''));
  }
  return !WHOLE.includes(command) || (command === 'HGETALL' && isReply);
}

const nameOf = ({ file, command }: Call): string => `${file} ${command}`;

test('no script reads a whole set, list, stream or hash, except those that are always small', () => {
  const unbounded = files.flatMap(callsIn).filter((call) => !isBounded(call));
  expect(
    unbounded
      .filter((call) => EXCEPTIONS[nameOf(call)] === undefined)
      .map(({ file, text }) => `${file}: ${text}`),
  ).toEqual([]);
  expect(Object.keys(EXCEPTIONS).filter((name) => !unbounded.some((call) => nameOf(call) === name))).toEqual(
    [],
  );
});

test('no script loops until something outside it ends', () => {
  expect(files.filter((file) => /while true|repeat\b/.test(textOf(file)))).toEqual([]);
});

test('the check itself distinguishes bounded from unbounded', () => {
  const judged = (text: string): boolean => {
    const command = /'([A-Z]+)'/.exec(text)?.[1] ?? '';
    return isBounded({ file: 'probe', command, text, isReply: false });
  };
  expect(judged("redis.call('ZRANGEBYSCORE', key, from, to)")).toBe(false);
  expect(judged("redis.call('ZRANGEBYLEX', key, from, to, 'LIMIT', 0, limit)")).toBe(true);
  expect(judged("redis.call('XRANGE', key, '-', '+')")).toBe(false);
  expect(judged("redis.call('XRANGE', key, id, id)")).toBe(true);
  expect(judged("redis.call('ZRANGE', key, 0, -1)")).toBe(false);
  expect(judged("redis.call('ZRANGE', key, from, from + limit - 1)")).toBe(true);
  expect(judged("redis.call('HGETALL', key)")).toBe(false);
  expect(judged("redis.call('SMEMBERS', key)")).toBe(false);
});
