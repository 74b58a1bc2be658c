import { describe, expect, test } from '@jest/globals';
import { auditLogKey, policyKey, policyPatternKey, tenantKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { createPolicy, decide, makePolicy, updatePolicy } from '../support/admission-client.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const PLACE = { workspace: 'Eng', agent: 'Bot' };

async function governed(): Promise<LedgerClient> {
  const ledger = await newLedger();
  await ledger.makeTenant();
  await ledger.makeBudget({ allocated: 1_000_000 });
  return ledger;
}

/**
 * The caps of the policy that governs a request, by which these tests tell policies apart; `none` if no
 * policy does.
 */
async function capsAt(ledger: LedgerClient, subject: object = PLACE): Promise<string> {
  const reply = await decide(ledger, { subject, amount: 1 });
  return reply[0] === 'ALLOW_WITH_CAPS' ? (reply[2] as string) : 'none';
}

const caps = (name: string): { readonly caps: string } => ({ caps: name });
const hasPolicies = (ledger: LedgerClient): Promise<string | null> =>
  ledger.redis.hget(tenantKey(ledger.tag, ledger.tenant), 'policies');

describe('a policy governs', () => {
  test('the requests that derive exactly its scope, in upper or lower case', async () => {
    const ledger = await governed();
    await makePolicy(ledger, ledger.scope({ workspace: 'eng' }), { sets: caps('a') });
    expect(await capsAt(ledger, { workspace: 'ENG' })).toBe('a');
    expect(await capsAt(ledger, PLACE)).toBe('a');
    expect(await capsAt(ledger, {})).toBe('none');
    expect(await capsAt(ledger, { workspace: 'eng2' })).toBe('none');
    expect(await capsAt(ledger, { agent: 'bot' })).toBe('none');
  });

  test('with a wildcard, everything below its scope, and not the scope itself', async () => {
    const ledger = await governed();
    await makePolicy(ledger, `${ledger.scope({ workspace: 'eng' })}/*`, { sets: caps('a') });
    expect(await capsAt(ledger, { workspace: 'eng' })).toBe('none');
    expect(await capsAt(ledger, PLACE)).toBe('a');
    expect(
      await capsAt(ledger, { workspace: 'eng', app: 'x', workflow: 'y', agent: 'z', toolset: 'w' }),
    ).toBe('a');
    expect(await capsAt(ledger, { workspace: 'engine', agent: 'bot' })).toBe('none');
  });

  test('by the highest priority; of equal ones the longer pattern, then the older', async () => {
    shows('createPolicy');
    const ledger = await governed();
    const leaf = ledger.scope(PLACE);
    await makePolicy(ledger, ledger.scope(), { sets: caps('root') });
    expect(await capsAt(ledger)).toBe('root');
    await makePolicy(ledger, `${ledger.scope()}/*`, { sets: caps('below-root') });
    expect(await capsAt(ledger)).toBe('below-root');
    const first = await makePolicy(ledger, leaf, { sets: caps('leaf') });
    await ledger.redis.hincrby(policyKey(ledger.tag, first), 'created_at', -60_000);
    await makePolicy(ledger, leaf, { sets: caps('younger') });
    await updatePolicy(ledger, first, { status: 'DISABLED' });
    expect(await capsAt(ledger)).toBe('younger');
    await updatePolicy(ledger, first, { status: 'ACTIVE' });
    expect(await capsAt(ledger)).toBe('leaf');
    const strong = await makePolicy(ledger, ledger.scope(), { priority: 7, sets: caps('strong') });
    expect(await capsAt(ledger)).toBe('strong');
    await updatePolicy(ledger, first, { priority: 8 });
    expect(await capsAt(ledger)).toBe('leaf');
    await updatePolicy(ledger, strong, { priority: 2_147_483_647 });
    expect(await capsAt(ledger)).toBe('strong');
  });

  test('from its first instant until just before its last, by the time of Redis', async () => {
    shows('policy precedence');
    const ledger = await governed();
    const now = await ledger.serverTime();
    const id = await makePolicy(ledger, ledger.scope(), {
      from: now + 600_000,
      until: now + 1_200_000,
      sets: caps('later'),
    });
    expect(await capsAt(ledger)).toBe('none');
    await updatePolicy(ledger, id, { effective_from: now });
    expect(await capsAt(ledger)).toBe('later');
    await updatePolicy(ledger, id, {
      effective_from: now - 600_000,
      effective_until: await ledger.serverTime(),
    });
    expect(await capsAt(ledger)).toBe('none');
    await updatePolicy(ledger, id, { effective_until: '' });
    expect(await capsAt(ledger)).toBe('later');
  });

  test('no request of a tenant that was never registered', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    expect((await createPolicy(ledger, ledger.scope())).reply).toEqual(['TENANT_NOT_FOUND']);
    expect(await capsAt(ledger)).toBe('none');
  });
});

describe('a reserve that a policy governs', () => {
  test('is ALLOW_WITH_CAPS, and replays the caps that it got', async () => {
    const ledger = await governed();
    const id = await makePolicy(ledger, ledger.scope(), { sets: caps('old') });
    const reply = await ledger.reserve({ key: 'k', amount: 5 });
    expect(reply).toEqual([
      'ALLOW_WITH_CAPS',
      'fresh',
      expect.any(String),
      expect.any(String),
      '600000',
      'ALLOW_IF_AVAILABLE',
      'old',
      ledger.scope(),
      '999995,5,0,1000000,0,0,0',
    ]);
    const dry = await ledger.reserve({ key: 'd', amount: 5, dryRun: true });
    expect(dry).toEqual(['DRY_RUN_WITH_CAPS', 'fresh', 'old', ledger.scope(), '999990,10,0,1000000,0,0,0']);
    await updatePolicy(ledger, id, caps('new'));
    const again = await ledger.reserve({ key: 'k', amount: 5 });
    expect(again.with(4, '')).toEqual(reply.with(1, 'replay').with(4, ''));
    expect(await ledger.reserve({ key: 'd', amount: 5, dryRun: true })).toEqual(dry.with(1, 'replay'));
    expect((await ledger.reserve({ amount: 5 }))[6]).toBe('new');
    await updatePolicy(ledger, id, { caps: '' });
    expect((await ledger.reserve({ amount: 5 }))[0]).toBe('ALLOW');
    await assertInvariants(ledger);
  });

  test('takes its overage policy after the request and before budget and tenant', async () => {
    const ledger = await governed();
    await ledger.makeTenant({ default_commit_overage_policy: 'ALLOW_IF_AVAILABLE' });
    await ledger.makeBudget({ policy: 'ALLOW_WITH_OVERDRAFT' });
    await makePolicy(ledger, ledger.scope(), { sets: { commit_overage_policy: 'REJECT' } });
    expect((await ledger.reserve())[5]).toBe('REJECT');
    expect((await ledger.reserve({ policy: 'ALLOW_IF_AVAILABLE' }))[5]).toBe('ALLOW_IF_AVAILABLE');
  });

  test('takes lease, cap and extensions from it before its tenant, and keeps the cap for extensions', async () => {
    const ledger = await governed();
    await ledger.makeTenant({
      default_reservation_ttl_ms: '5000',
      max_reservation_ttl_ms: '6000',
      max_reservation_extensions: '9',
    });
    const id = await makePolicy(ledger, ledger.scope(), {
      sets: { default_ttl_ms: 20_000, max_ttl_ms: 30_000, max_extensions: 1 },
    });
    const reply = await ledger.reserve({ ttlMs: '' });
    expect(reply[4]).toBe('20000');
    expect((await ledger.reserve({ ttlMs: 60_000 }))[4]).toBe('30000');
    const held = reply[2] as string;
    expect(await ledger.record(held)).toMatchObject({ mx: '1', mt: '30000' });
    await updatePolicy(ledger, id, { status: 'DISABLED' });
    expect(Number((await ledger.extend(held, 86_400_000))[2])).toBe(Number(reply[3]) + 30_000);
    expect(await ledger.extend(held, 1)).toEqual(['MAX_EXTENSIONS_EXCEEDED', '1']);
    expect((await ledger.reserve({ ttlMs: '' }))[4]).toBe('5000');
    expect((await ledger.reserve({ ttlMs: 60_000 }))[4]).toBe('6000');
    await assertInvariants(ledger);
  });

  test('keeps the cap of its tenant if the policy has none, and treats zero extensions as a limit', async () => {
    const ledger = await governed();
    await ledger.makeTenant({ max_reservation_ttl_ms: '6000' });
    await makePolicy(ledger, ledger.scope(), { sets: { default_ttl_ms: 20_000, max_extensions: 0 } });
    const reply = await ledger.reserve({ ttlMs: '' });
    expect(reply[4]).toBe('6000');
    expect(await ledger.extend(reply[2] as string, 1)).toEqual(['MAX_EXTENSIONS_EXCEEDED', '0']);
  });

  test('whose policy record is gone ends with an error and holds nothing', async () => {
    const ledger = await governed();
    await ledger.redis.del(
      policyKey(ledger.tag, await makePolicy(ledger, ledger.scope(), { sets: caps('a') })),
    );
    const before = await snapshot(ledger);
    await expect(ledger.reserve()).rejects.toThrow('corrupt policy record');
    expect(await snapshot(ledger)).toEqual(before);
  });
});

describe('the index of patterns', () => {
  test('has the policies that are active and have not ended, and the tenant knows whether there are any', async () => {
    const ledger = await governed();
    const scope = ledger.scope();
    const now = await ledger.serverTime();
    expect(await hasPolicies(ledger)).toBeNull();
    const over = await makePolicy(ledger, scope, { until: now - 1 });
    const id = await makePolicy(ledger, scope, { priority: 3, until: now + 600_000 });
    await makePolicy(ledger, `${scope}/*`);
    expect(await hasPolicies(ledger)).toBe('2');
    const stored = (): Promise<string | null> =>
      ledger.redis.hget(policyPatternKey(ledger.tag, ledger.tenant), scope);
    expect(await stored()).toMatch(new RegExp(`^${id},3,,${now + 600_000},\\d+$`));
    await updatePolicy(ledger, over, { effective_until: now + 900_000 });
    expect((await stored())?.split(' ').map((entry) => entry.split(',')[0])).toEqual(
      expect.arrayContaining([id, over]),
    );
    await updatePolicy(ledger, over, { status: 'DISABLED' });
    await updatePolicy(ledger, id, { status: 'DISABLED' });
    expect(await stored()).toBeNull();
    expect(await hasPolicies(ledger)).toBe('1');
  });

  test('is deleted with its last policy, so that a reserve reads nothing more', async () => {
    const ledger = await governed();
    const id = await makePolicy(ledger, ledger.scope(), { sets: caps('a') });
    await updatePolicy(ledger, id, { status: 'DISABLED' });
    expect(await hasPolicies(ledger)).toBeNull();
    expect(await capsAt(ledger)).toBe('none');
  });

  test('accepts 32 active policies per pattern and no more', async () => {
    const ledger = await governed();
    const ids: string[] = [];
    for (let count = 0; count < 32; count += 1) {
      ids.push(await makePolicy(ledger, ledger.scope()));
    }
    const before = await snapshot(ledger);
    expect((await createPolicy(ledger, ledger.scope())).reply).toEqual(['TOO_MANY', '32']);
    expect(await snapshot(ledger)).toEqual(before);
    await updatePolicy(ledger, ids[0] as string, { status: 'DISABLED' });
    await makePolicy(ledger, ledger.scope());
    expect(await updatePolicy(ledger, ids[0] as string, { status: 'ACTIVE' })).toEqual(['TOO_MANY', '32']);
    expect((await updatePolicy(ledger, ids[1] as string, { priority: 4 }))[0]).toBe('UPDATED');
  });
});

describe('an update', () => {
  test('that changes nothing writes nothing and emits nothing', async () => {
    const ledger = await governed();
    const id = await makePolicy(ledger, ledger.scope(), {
      name: 'a',
      priority: 3,
      sets: { description: 'd' },
    });
    const before = await snapshot(ledger);
    const reply = await updatePolicy(ledger, id, {
      name: 'a',
      priority: 3,
      description: 'd',
      caps: '',
      status: 'ACTIVE',
    });
    expect(reply[0]).toBe('UPDATED');
    expect(await snapshot(ledger)).toEqual(before);
  });

  test('names each member that it changed once, and writes an audit row', async () => {
    shows('acting for tenant', 'updatePolicy');
    const ledger = await governed();
    const id = await makePolicy(ledger, ledger.scope(), { name: 'a' });
    await updatePolicy(ledger, id, {
      name: 'b',
      status: 'ACTIVE',
      default_ttl_ms: 5000,
      max_ttl_ms: 6000,
      caps: 'c',
    });
    const { events } = await assertInvariants(ledger);
    expect(events.map(({ fields }) => fields)).toMatchObject([
      {
        ty: 'policy.created',
        tn: ledger.tenant,
        policy_id: id,
        name: 'a',
        scope_pattern: ledger.scope(),
        rq: 'req_policy',
        ac: 'api_key',
        ki: 'key_1',
      },
      {
        ty: 'policy.updated',
        policy_id: id,
        name: 'b',
        scope_pattern: ledger.scope(),
        changed_fields: 'name,reservation_ttl_override,caps',
      },
    ]);
    const rows = (await ledger.redis.xrange(auditLogKey(ledger.tag), '-', '+')).map(([, flat]) =>
      flat.join(' '),
    );
    expect(rows).toEqual([
      expect.stringContaining(`op createPolicy tn ${ledger.tenant}`),
      expect.stringContaining(`op updatePolicy tn ${ledger.tenant}`),
    ]);
  });

  test('of the name makes the old one available to other policies', async () => {
    const ledger = await governed();
    const id = await makePolicy(ledger, ledger.scope(), { name: 'a' });
    expect((await updatePolicy(ledger, id, { name: 'c' }))[0]).toBe('UPDATED');
    expect((await createPolicy(ledger, ledger.scope(), { name: 'a' })).reply[0]).toBe('CREATED');
  });
});
