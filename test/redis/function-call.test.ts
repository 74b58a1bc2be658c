import { expect, test } from '@jest/globals';
import { Command } from 'ioredis';
import { type Arguments, FunctionCall } from '../../src/redis/script-call.js';

const texts = (command: Command): string => command.toWritable({}).toString();

test.each<[string, Arguments, Arguments]>([
  ['no keys and arguments', [], []],
  ['numbers', ['{p00}k'], [0, 86_400_000, -1, 68_719_476_736]],
  ['empty and long texts', ['{p00}k'], ['', 'a'.repeat(255), 'b'.repeat(256), 'c'.repeat(70_000)]],
  ['line breaks and separators', ['{p00}k'], ['a\r\nb', 'tenant\u001fprod', '\0']],
  ['Latin letters beyond ASCII', ['{p00}k'], ['größe', 'a']],
  ['other letters', ['{p00}k', '{p00}l'], ['漢字', '😀', 'a']],
])('a call with %s is encoded as ioredis does it', (_, keys, args) => {
  const call = new FunctionCall('probe', keys, args);
  expect(texts(call)).toBe(texts(new Command('fcall', ['probe', keys.length, ...keys, ...args])));
  expect(call.getKeys()).toEqual(keys);
});
