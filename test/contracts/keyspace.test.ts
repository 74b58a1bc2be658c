import { expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import * as generated from '../../src/redis/keys.js';
import * as keyspace from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { sharedStoreUrl } from '../support/store.js';
import { code, scriptTexts } from '../support/script-text.js';
import { probeText } from '../support/script-probe.js';

const TAG = keyspace.tagOf('1f');

test('the builders in TypeScript give the key names of the scripts', async () => {
  const builders = Object.entries(generated as unknown as Record<string, (...parts: string[]) => string>);
  expect(builders.length).toBeGreaterThan(50);
  const parts = [TAG, ...'ab|:'];
  const names = builders.map(([name]) =>
    name.replace(/Key$/, '').replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
  );
  const calls = names.map((name, index) => `keys.${name}(${given(builders[index]![1].length)})`);
  function given(count: number): string {
    return parts
      .slice(0, count)
      .map((part) => `'${part}'`)
      .join(', ');
  }
  const redis = new Redis(sharedStoreUrl());
  const source = probeText(`#!lua flags=no-writes
-- probe: names keys.
-- RETURNS names
-- BOUND one probe
-- EMITS nothing
-- @include keys
return { keys.tag_of('${TAG}ttl'), keys.reserve_idempotency('${TAG}', 'a', 'b|c'), ${calls.join(', ')} }
`);
  expect(await redis.eval(source, 0)).toEqual([
    TAG,
    keyspace.idempotencyKey.reserve(TAG, 'a', 'b|c'),
    ...builders.map(([, builder]) => builder(...parts.slice(0, builder.length))),
  ]);
  await redis.quit();
});

test('no script builds a key name itself', () => {
  for (const { name, own, included } of scriptTexts()) {
    const texts = [own, ...included].map(code).filter((text) => !text.includes('function keys.reservation('));
    for (const text of texts) {
      expect(`${name}: ${/\btag \.\. /.exec(text)?.[0] ?? 'none'}`).toBe(`${name}: none`);
    }
  }
});

test('a partition is crc16 of the tenant modulo the count, whatever the power of two', () => {
  expect(keyspace.partitionOfTenant('123456789', 256)).toBe(0x31c3 % 256);
  expect(keyspace.partitionOfTenant('123456789', 64)).toBe(0x31c3 % 64);
  expect(keyspace.partitionOfTenant('123456789', 1)).toBe(0);
});

test('an id names its partition, and one that was never issued names none', () => {
  const name = 'abcdefghij012345';
  expect(keyspace.tagOfReservationId(`rsv_1f${name}`, 64)).toBe('{p1f}');
  expect(keyspace.tagOfReservationId(`rsv_40${name}`, 64)).toBeUndefined();
  expect(keyspace.tagOfReservationId(`rsv_1F${name}`, 64)).toBeUndefined();
  expect(keyspace.tagOfReservationId(`rsv_1f${name}x`, 64)).toBeUndefined();
  expect(keyspace.tagOfReservationId(`rsv_1f${name}\n`, 64)).toBeUndefined();
  expect(keyspace.tagOfKeyId(`key_00${name}`, 1)).toBe('{p00}');
  expect(keyspace.tagOfKeySecret(`cyc_live_ff${'a'.repeat(43)}`, 256)).toBe('{pff}');
  expect(keyspace.tagOfKeySecret(`cyc_live_ff${'a'.repeat(42)}`, 256)).toBeUndefined();
});

test('two idempotent requests never share a record name', () => {
  shows('idempotency scope');
  const { idempotencyKey: names } = keyspace;
  const all = [
    names.reserve(TAG, 'a', 'b|c'),
    names.reserve(TAG, 'a|b', 'c'.replace('c', 'd')),
    names.commit(TAG, 'a', 'b', 'c'),
    names.release(TAG, 'a', 'b', 'c'),
    names.extend(TAG, 'a', 'b', 'c'),
    names.fund(TAG, 'TOKENS', 'a', 'b|c'),
    names.decide(TAG, 'a', 'b|c'),
    names.directDebit(TAG, 'a', 'b|c'),
  ];
  expect(new Set(all).size).toBe(all.length);
});
