import { describe, expect, test } from '@jest/globals';
import { scopeAllowed } from '../../src/auth/caller.js';

const ENG = 'tenant:acme/workspace:eng';

describe('a scope filter', () => {
  test.each<[string, string[], string, boolean]>([
    ['without entries admits everything', [], 'tenant:acme', true],
    [
      "limits to its workspace, and a wildcard agent adds nothing: the document's own example",
      ['workspace:eng', 'agent:*'],
      ENG,
      true,
    ],
    ['admits scopes below its workspace', ['workspace:eng', 'agent:*'], `${ENG}/agent:x`, true],
    [
      'does not admit another workspace because of its agent',
      ['workspace:eng', 'agent:*'],
      'tenant:acme/workspace:ops/agent:x',
      false,
    ],
    ['does not admit scopes above its workspace', ['workspace:eng', 'agent:*'], 'tenant:acme', false],
    ['admits each of several agents', ['agent:a', 'agent:b'], `${ENG}/agent:b`, true],
    ['admits no third agent', ['agent:a', 'agent:b'], `${ENG}/agent:c`, false],
    [
      'needs every level that it names: all of them match',
      ['workspace:eng', 'agent:a', 'agent:b'],
      `${ENG}/agent:a`,
      true,
    ],
    [
      'needs every level that it names: one does not match',
      ['workspace:ops', 'agent:a'],
      `${ENG}/agent:a`,
      false,
    ],
    [
      'treats an entry of several segments as its deepest one',
      ['workspace:eng/agent:a', 'workspace:ops/agent:b'],
      'tenant:acme/workspace:ops/agent:b',
      true,
    ],
    [
      'needs all segments of an entry',
      ['workspace:eng/agent:a', 'workspace:ops/agent:b'],
      'tenant:acme/workspace:ops/agent:a',
      false,
    ],
    [
      'keeps the other segments of an entry with a wildcard',
      ['tenant:other/agent:*'],
      `${ENG}/agent:a`,
      false,
    ],
    ['that consists of wildcards admits everything', ['agent:*', 'workspace:*'], 'tenant:acme', true],
    ['matches whole segments', ['agent:a'], 'tenant:acme/agent:a2', false],
  ])('%s', (_what, filter, scope, allowed) => {
    expect(scopeAllowed(filter, scope)).toBe(allowed);
  });
});
