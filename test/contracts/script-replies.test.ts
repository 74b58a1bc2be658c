import { describe, expect, test } from '@jest/globals';
import { parseHeader, parseReturns, shapesOf } from '../../scripts/lua/header.js';
import ts from 'typescript';
import { DecoderWriter } from '../../scripts/lua/decoders.js';
import * as reading from '../../src/redis/reply-reader.js';
import { LIBRARY } from '../../src/redis/script-library.js';
import { code, scriptTexts } from '../support/script-text.js';

const SHAPES = new Map(shapesOf('-- SHAPE balance = remaining,debt,is_over_limit:flag\n'));

function decoder(returns: string): (reply: string[]) => unknown {
  const header = parseHeader(
    'probe',
    `#!lua\n-- probe: says nothing.\n-- RETURNS ${returns}\n-- BOUND one\n-- EMITS nothing\n`,
  );
  const writer = new DecoderWriter();
  const written = writer.decoderOf(parseReturns(header, SHAPES));
  const { outputText } = ts.transpileModule(
    `const { flag, int, undeclared, values, word } = reading; ${writer.constants} return ${written};`,
    { compilerOptions: { target: ts.ScriptTarget.ES2023 } },
  );
  // eslint-disable-next-line @typescript-eslint/no-implied-eval -- the build writes this code into a module
  const decode = new Function('reading', outputText)(reading) as Parameters<typeof reading.decodeReply>[1];
  return (reply) => reading.decodeReply('probe', decode, reply);
}

describe('a reply becomes what its header names', () => {
  test.each<[string, string[], unknown]>([
    ['OK', ['OK'], { status: 'OK' }],
    ['OK key_id | GONE', ['GONE'], { status: 'GONE' }],
    ['OK key_id expires_at_ms', ['OK', 'k', '17'], { status: 'OK', keyId: 'k', expiresAtMs: 17 }],
    ['left:int used_count amount', ['1', '2', '3'], { left: 1, usedCount: 2, amount: '3' }],
    ['score:int', ['-inf'], { score: -Infinity }],
    ['walked_ms:text more:flag held:flag', ['7', '1', '0'], { walkedMs: '7', more: true, held: false }],
    ['next? due_ms?', ['', ''], {}],
    ['next? due_ms?', ['a', '5'], { next: 'a', dueMs: 5 }],
    ['OK answer:fresh|replay', ['OK', 'replay'], { status: 'OK', answer: 'replay' }],
    ['OK units*', ['OK', 'a', 'b'], { status: 'OK', units: ['a', 'b'] }],
    ['OK units*', ['OK'], { status: 'OK', units: [] }],
    [
      'rows(id at_ms)*',
      ['a', '1', 'b', '2'],
      {
        rows: [
          { id: 'a', atMs: 1 },
          { id: 'b', atMs: 2 },
        ],
      },
    ],
    [
      'record{}',
      ['a', '1', 'b', ''],
      {
        record: new Map([
          ['a', '1'],
          ['b', ''],
        ]),
      },
    ],
    ['kept_count kept* rest*', ['2', 'a', 'b', 'c'], { kept: ['a', 'b'], rest: ['c'] }],
    ['field_count event{} rest*', ['1', 'a', 'b', 'c'], { event: new Map([['a', 'b']]), rest: ['c'] }],
    ['text_count event{} rest*', ['2', 'a', 'b', 'c'], { event: new Map([['a', 'b']]), rest: ['c'] }],
    [
      'rows(id scope_count scopes* end?)*',
      ['a', '2', 's', 't', '', 'b', '0', 'now'],
      {
        rows: [
          { id: 'a', scopes: ['s', 't'] },
          { id: 'b', scopes: [], end: 'now' },
        ],
      },
    ],
    ['OK [now_ms by]', ['OK'], { status: 'OK' }],
    ['OK [now_ms by]', ['OK', '5', 'me'], { status: 'OK', nowMs: 5, by: 'me' }],
    [
      'OK balances(scope balance)*',
      ['OK', 's', '-3,9223372036854775807,1'],
      {
        status: 'OK',
        balances: [
          { scope: 's', balance: { remaining: '-3', debt: '9223372036854775807', isOverLimit: true } },
        ],
      },
    ],
  ])('%s', (returns, reply, expected) => {
    expect(decoder(returns)(reply)).toEqual(expected);
  });

  test.each<[string, string[], string]>([
    ['OK | GONE', ['DENY'], 'its status word is not declared'],
    ['OK | GONE', [], 'it is too short'],
    ['OK id', ['OK'], 'it is too short'],
    ['OK id', ['OK', 'a', 'b'], 'it is too long'],
    ['OK id', ['OK', null as unknown as string], 'it holds what is no text'],
    ['OK at_ms', ['OK', 'soon'], 'expected a number'],
    ['OK at_ms', ['OK', ''], 'expected a number'],
    ['OK more:flag', ['OK', '2'], 'expected one of 0, 1'],
    ['OK answer:fresh|replay', ['OK', 'new'], 'expected one of fresh, replay'],
    ['OK rows(id at_ms)*', ['OK', 'a', '1', 'b'], 'it is too short'],
    ['OK record{}', ['OK', 'a'], 'it is too short'],
    ['OK kept_count kept*', ['OK', '2', 'a'], 'it is too short'],
    ['OK [now_ms by]', ['OK', '5'], 'it is too short'],
    ['OK balance', ['OK', '1,2'], 'a text has 2 values and not 3'],
  ])('%s refuses %j', (returns, reply, message) => {
    expect(() => decoder(returns)(reply)).toThrow(`a reply of probe.lua does not fit its header: ${message}`);
  });

  test.each([
    ['OK | key_id', 'each alternative needs its own status word'],
    ['OK id | OK', 'each alternative needs its own status word'],
    ['OK Id', "'Id' is not a valid item of a reply"],
    ['OK (a b)*', "'(a b)*' is not a valid item of a reply"],
    ['OK rows(a b)* next', "'rows(a b)*' needs a count before it"],
    ['OK units* [next]', "'units*' needs a count before it"],
    ['OK rows(a units*)*', "'units*' needs a count before it"],
    ['OK id id', 'there are two items of the name id'],
    ['OK status', 'an item is named status'],
  ])('%s is not a header', (returns, message) => {
    expect(() => decoder(returns)).toThrow(`probe.lua: RETURNS: ${message}`);
  });
});

test('keys and arguments named as in TypeScript come in the order of the header', () => {
  const { keysOf, argsOf } = LIBRARY.scripts.get('decide') ?? {};
  expect(keysOf?.({ tenant: 't', idempotency: 'i' })).toEqual(['i', 't']);
  const named = {
    trace: 9,
    requestId: 8,
    keyId: 7,
    retentionMs: 6,
    idempotencyTtlMs: 5,
    amount: 4,
    unit: 3,
    fingerprint: 2,
    tenantId: 1,
    scopeCount: 12,
    maxBudgets: 11,
    actionFacts: 10,
    rest: ['a', 'b'],
  };
  expect(argsOf?.(named)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 'a', 'b']);
});

test('below the line where nothing is refused, no script raises an error or requires anything', () => {
  const LINE = '-- Nothing is refused below this line.';
  const writing = scriptTexts().filter(({ own }) => own.includes(LINE));
  expect(writing.length).toBeGreaterThan(10);
  const refusing = writing.filter(({ own }) =>
    /\berror\(|\brequire_|\brefus/.test(code(own.slice(own.indexOf(LINE)))),
  );
  expect(refusing.map(({ name }) => name)).toEqual([]);
});
