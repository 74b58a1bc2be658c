import { expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { isWithin, treeOrder } from '../../src/ledger/index.js';
import { sharedStoreUrl } from '../support/store.js';
import { probeText } from '../support/script-probe.js';

const HEADER = `#!lua flags=no-writes
-- probe: the rules of lua/lib/scope_tree.lua.
-- RETURNS results
-- BOUND one probe
-- EMITS nothing
-- @include scope_tree
`;
const SCOPES = [
  'tenant:acme',
  'tenant:acme/workspace:eng',
  'tenant:acme/workspace:eng/app:a',
  'tenant:acme/workspace:eng-2',
  'tenant:acme/workspace:eng-2/app:b',
  'tenant:acme/workspace:eng.b',
  'tenant:acme/workspace:engineering',
  'tenant:acme-test',
  'tenant:acme-test/workspace:support',
];
const ABOVE = [
  '',
  ...SCOPES,
  'tenant:acme/',
  'tenant:acme/workspace:eng/',
  'tenant:ac',
  'tenant:acme/workspace:',
];

async function probe(code: string): Promise<unknown> {
  const redis = new Redis(sharedStoreUrl());
  try {
    return await redis.eval(probeText(HEADER + code), 0);
  } finally {
    await redis.quit();
  }
}

const inLua = (texts: readonly string[]): string => `{ ${texts.map((text) => `'${text}'`).join(', ')} }`;

test('a scope is within itself and what is above it by whole segments, in scripts and in the service', async () => {
  const within = (above: string): string[] => SCOPES.filter((scope) => isWithin(scope, above));
  expect(within('')).toEqual(SCOPES);
  expect(within('tenant:acme')).toEqual(SCOPES.slice(0, 7));
  expect(within('tenant:acme/')).toEqual(SCOPES.slice(1, 7));
  expect(within('tenant:acme/workspace:eng')).toEqual(SCOPES.slice(1, 3));
  expect(within('tenant:acme/workspace:')).toEqual([]);
  const found = await probe(`local found = {}
for _, above in ipairs(${inLua(ABOVE)}) do
  for _, scope in ipairs(${inLua(SCOPES)}) do
    found[#found + 1] = scope_tree.is_within(scope, above) and 1 or 0
  end
end
return found
`);
  expect(found).toEqual(ABOVE.flatMap((above) => SCOPES.map((scope) => (isWithin(scope, above) ? 1 : 0))));
});

test('the index of budgets is in the order of trees, in scripts and in the service', async () => {
  // They stand in this order above, for each unit.
  const budgets = SCOPES.flatMap((scope) => [`${scope} CREDITS`, `${scope} TOKENS`]);
  expect(budgets.map(treeOrder).toSorted()).toEqual(budgets.map(treeOrder));
  const found = await probe(`local found = {}
for _, budget in ipairs(${inLua(budgets)}) do
  local member = scope_tree.in_tree_order(budget)
  local scope, unit = scope_tree.budget_of_member(member)
  found[#found + 1], found[#found + 2] = member, scope .. ' ' .. unit
end
return found
`);
  expect(found).toEqual(budgets.flatMap((budget) => [treeOrder(budget), budget]));
});
