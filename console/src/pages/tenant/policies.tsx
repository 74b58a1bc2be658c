import { Button } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import type { Schema } from '../../api/operations';
import { useList } from '../../api/list';
import { formatAmount } from '../../parts/amount';
import { Listing } from '../../parts/loaded';
import { Panel } from '../../parts/panel';
import { Empty } from '../../parts/states';
import { Status, wordOf } from '../../parts/status';
import { Table } from '../../parts/table';
import { formatDuration, Time } from '../../parts/time';
import { PolicyForm, POLICIES } from './policy-form';
import { quotaWords } from './quotas';

type Policy = Schema<'Policy'>;

/** What a policy does, in words. */
function effectsOf(policy: Policy): string[] {
  const { caps, commit_overage_policy: overage, reservation_ttl_override: ttl, rate_limits: rates } = policy;
  const quotas = [
    ...policy.action_quotas.map((quota) => quotaWords(quota.action_kind, quota)),
    ...policy.risk_class_quotas.map((quota) => quotaWords(quota.risk_class, quota)),
  ];
  const effects: readonly (string | false | undefined)[] = [
    caps?.max_tokens !== undefined && `at most ${formatAmount(caps.max_tokens, 'TOKENS')} tokens a call`,
    overage !== undefined && `overage: ${wordOf(overage).toLowerCase()}`,
    ttl?.max_ttl_ms !== undefined && `leases of at most ${formatDuration(ttl.max_ttl_ms)}`,
    rates?.max_reservations_per_minute !== undefined &&
      `${rates.max_reservations_per_minute} reservations a minute`,
    rates?.max_commits_per_minute !== undefined && `${rates.max_commits_per_minute} commits a minute`,
    ...quotas,
    policy.allowed_action_kinds.length > 0 && `only ${policy.allowed_action_kinds.join(', ')}`,
    policy.denied_action_kinds.length > 0 && `never ${policy.denied_action_kinds.join(', ')}`,
  ];
  return effects.filter((effect) => typeof effect === 'string');
}

/** The policies of a tenant. */
export function Policies({ tenantId, mayChange }: { tenantId: string; mayChange: boolean }): ReactNode {
  const [isCreating, setCreating] = useState(false);
  const [changed, setChanged] = useState<Policy>();
  const list = useList(POLICIES, { tenant_id: tenantId }, ({ policies }) => policies);
  return (
    <Panel
      title="Policies"
      className="span-12"
      flush
      aside={
        mayChange && (
          <Button size="compact-xs" variant="default" onClick={() => setCreating(true)}>
            Create policy
          </Button>
        )
      }
    >
      <Listing
        list={list}
        height={120}
        empty={<Empty title="No policies">Only the settings of the tenant and its budgets decide.</Empty>}
      >
        {(policies) => <PolicyTable policies={policies} {...(mayChange ? { edit: setChanged } : {})} />}
      </Listing>
      {isCreating && <PolicyForm tenantId={tenantId} close={() => setCreating(false)} />}
      {changed !== undefined && (
        <PolicyForm tenantId={tenantId} policy={changed} close={() => setChanged(undefined)} />
      )}
    </Panel>
  );
}

function PolicyTable({
  policies,
  edit,
}: {
  policies: readonly Policy[];
  edit?: (policy: Policy) => void;
}): ReactNode {
  return (
    <Table
      label="Policies"
      columns={['Policy', 'Scopes', { right: 'Priority' }, 'What it does', 'Status', { hidden: 'Change' }]}
      items={policies}
    >
      {(policy) => (
        <tr key={policy.policy_id}>
          <td>
            {policy.name}
            <div className="muted small id">{policy.policy_id}</div>
          </td>
          <td className="id">{policy.scope_pattern}</td>
          <td className="right num">{policy.priority}</td>
          <td style={{ minWidth: 180 }}>
            {effectsOf(policy).join(', ') || <span className="muted">nothing</span>}
            <Window policy={policy} />
          </td>
          <td>
            <Status value={policy.status} />
          </td>
          <td className="right">
            {edit !== undefined && (
              <Button
                size="compact-xs"
                variant="default"
                aria-label={`Edit ${policy.name}`}
                onClick={() => edit(policy)}
              >
                Edit
              </Button>
            )}
          </td>
        </tr>
      )}
    </Table>
  );
}

function Window({ policy: { effective_from: from, effective_until: until } }: { policy: Policy }): ReactNode {
  if (from === undefined && until === undefined) {
    return null;
  }
  return (
    <div className="muted small">
      {from !== undefined && (
        <>
          from <Time at={from} />{' '}
        </>
      )}
      {until !== undefined && (
        <>
          until <Time at={until} />
        </>
      )}
    </div>
  );
}
