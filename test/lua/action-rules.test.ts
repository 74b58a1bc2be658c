import { describe, expect, test } from '@jest/globals';
import { policyKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { createPolicy, decide, makePolicy, updatePolicy } from '../support/admission-client.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, readLedger, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();

async function funded(): Promise<LedgerClient> {
  const ledger = await newLedger();
  await ledger.makeTenant();
  await ledger.makeBudget({ allocated: 1000 });
  return ledger;
}

const denies = (...kinds: string[]): Record<string, string> => ({
  denied_action_kinds: JSON.stringify(kinds),
});
const allows = (...kinds: string[]): Record<string, string> => ({
  allowed_action_kinds: JSON.stringify(kinds),
});

/** The end of a detail without a quota. */
const NO_QUOTA = ['', '', '', '', ''];

// The client reserves with the kind `llm`.
describe('a list of kinds', () => {
  test.each([
    ['denies what is on a denylist', denies('other', 'llm'), 'ACTION_KIND_DENIED'],
    ['permits what is not on a denylist', denies('llm.completion'), 'ALLOW'],
    ['denies what is not on an allowlist', allows('llm.completion'), 'ACTION_KIND_NOT_ALLOWED'],
    ['permits what is on an allowlist', allows('other', 'llm'), 'ALLOW'],
  ])('%s', async (_, sets, word) => {
    shows('action kind lists');
    const ledger = await funded();
    const policy = await makePolicy(ledger, ledger.scope(), { sets });
    const before = await snapshot(ledger, 'events');
    const reply = await ledger.reserve({ subject: { agent: 'bot' } });
    if (word === 'ALLOW') {
      expect(reply[0]).toBe('ALLOW');
      return;
    }
    expect(await snapshot(ledger, 'events')).toEqual(before);
    expect(reply).toEqual([word, ledger.scope({ agent: 'bot' }), policy]);
    expect(await decide(ledger, { key: 'd', subject: { agent: 'bot' } })).toEqual([
      'DENY',
      'fresh',
      word,
      ledger.scope({ agent: 'bot' }),
      '',
      policy,
      ...NO_QUOTA,
    ]);
    const { events } = await readLedger(ledger);
    const denials = events.filter(({ fields }) => fields['ty'] === 'reservation.denied');
    expect(denials.map(({ fields }) => [fields['reason_code'], fields['policy_id']])).toEqual([
      [word, policy],
      [word, policy],
    ]);
    await assertInvariants(ledger);
  });

  test('is checked before the budget, and after the tenant', async () => {
    shows('evaluation order');
    const ledger = await newLedger();
    await ledger.makeTenant();
    await makePolicy(ledger, ledger.scope(), { sets: denies('llm') });
    expect((await ledger.reserve())[0]).toBe('ACTION_KIND_DENIED');
    await ledger.makeBudget({ allocated: 1 });
    expect((await ledger.reserve())[0]).toBe('ACTION_KIND_DENIED');
    await ledger.makeTenant({ status: 'CLOSED' });
    expect((await ledger.reserve())[0]).toBe('TENANT_CLOSED');
  });

  test('of a dry run is the reason of a DENY with its detail, which replays', async () => {
    shows('deny detail');
    const ledger = await funded();
    const policy = await makePolicy(ledger, ledger.scope(), { sets: denies('llm') });
    const detail = ['ACTION_KIND_DENIED', ledger.scope(), '', policy, ...NO_QUOTA];
    expect(await ledger.reserve({ key: 'k', dryRun: true })).toEqual(['DENY', 'fresh', ...detail]);
    await updatePolicy(ledger, policy, { denied_action_kinds: '' });
    expect(await ledger.reserve({ key: 'k', dryRun: true })).toEqual(['DENY', 'replay', ...detail]);
    expect((await ledger.reserve({ dryRun: true }))[0]).toBe('ALLOW_DRY_RUN');
  });

  test('is that of the governing policy alone', async () => {
    const ledger = await funded();
    await makePolicy(ledger, ledger.scope(), { sets: denies('llm') });
    await makePolicy(ledger, ledger.scope({ agent: 'bot' }), { priority: 1, sets: denies('other') });
    expect((await ledger.reserve())[0]).toBe('ACTION_KIND_DENIED');
    expect((await ledger.reserve({ subject: { agent: 'bot' } }))[0]).toBe('ALLOW');
  });
});

describe('the detail of a denial', () => {
  test('is part of every DENY under a policy with rules on actions, and of none under other policies', async () => {
    const ledger = await funded();
    const policy = await makePolicy(ledger, ledger.scope(), { sets: denies('other') });
    const reply = ['DENY', 'fresh', 'BUDGET_EXCEEDED', ledger.scope(), '1000', '', ...NO_QUOTA];
    expect(await ledger.reserve({ amount: 1001, dryRun: true })).toEqual(reply);
    expect(await decide(ledger, { amount: 1001 })).toEqual(reply);
    await updatePolicy(ledger, policy, { denied_action_kinds: '' });
    expect(await ledger.reserve({ amount: 1001, dryRun: true })).toEqual(reply.slice(0, 3));
    expect(await decide(ledger, { amount: 1001 })).toEqual(reply.slice(0, 3));
  });

  test('is part of a DENY for requests with policy_keys', async () => {
    const ledger = await funded();
    const fields = { pk: '{"host":"example.com"}' };
    const reply = ['DENY', 'fresh', 'BUDGET_EXCEEDED', ledger.scope(), '1000', '', ...NO_QUOTA];
    expect(await ledger.reserve({ amount: 1001, dryRun: true, fields })).toEqual(reply);
    expect(await decide(ledger, { amount: 1001, fields })).toEqual(reply);
  });
});

test('a policy never has both lists', async () => {
  const ledger = await funded();
  const { id } = await createPolicy(ledger, ledger.scope(), { sets: denies('a') });
  const before = await snapshot(ledger);
  expect(await updatePolicy(ledger, id, allows('b'))).toEqual(['BOTH_LISTS']);
  expect(await snapshot(ledger)).toEqual(before);
  expect((await updatePolicy(ledger, id, { ...allows('b'), denied_action_kinds: '' }))[0]).toBe('UPDATED');
  expect(await ledger.redis.hget(policyKey(ledger.tag, id), 'rules')).toContain('"b"');
  await updatePolicy(ledger, id, { allowed_action_kinds: '' });
  expect(await ledger.redis.hexists(policyKey(ledger.tag, id), 'rules')).toBe(0);
});
