import { Button, NativeSelect, TextInput } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { call } from '../../api/client';
import type { Int64 } from '../../api/json';
import { useList } from '../../api/list';
import { queryClient } from '../../api/session';
import { formatAmount } from '../../parts/amount';
import { ChangeDialog } from '../../parts/change-dialog';
import { MoreRows } from '../../parts/more-rows';
import { Panel } from '../../parts/panel';
import { Empty, Failure, Loading } from '../../parts/states';
import { Status, wordOf } from '../../parts/status';
import { formatDuration, Time } from '../../parts/time';

const POLICIES = '/v1/admin/policies';
const MAX_COUNT = 2_147_483_647;

/** Policy of the protocol, as far as the page uses it. */
interface Policy {
  readonly policy_id: string;
  readonly name: string;
  readonly scope_pattern: string;
  readonly priority: number;
  readonly caps?: { readonly max_tokens?: Int64 };
  readonly commit_overage_policy?: string;
  readonly reservation_ttl_override?: { readonly max_ttl_ms?: number };
  readonly rate_limits?: {
    readonly max_reservations_per_minute?: number;
    readonly max_commits_per_minute?: number;
  };
  readonly action_quotas?: readonly unknown[];
  readonly risk_class_quotas?: readonly unknown[];
  readonly allowed_action_kinds?: readonly string[];
  readonly denied_action_kinds?: readonly string[];
  readonly status: string;
  readonly effective_from?: string;
  readonly effective_until?: string;
}

interface PolicyList {
  readonly policies: readonly Policy[];
  readonly has_more: boolean;
  readonly next_cursor?: string;
}

/** What a policy does, in words. */
function effectsOf(policy: Policy): string[] {
  const { caps, commit_overage_policy: overage, reservation_ttl_override: ttl, rate_limits: rates } = policy;
  const quotas = (policy.action_quotas?.length ?? 0) + (policy.risk_class_quotas?.length ?? 0);
  const effects: readonly (string | false | undefined)[] = [
    caps?.max_tokens !== undefined && `at most ${formatAmount(caps.max_tokens, 'TOKENS')} tokens a call`,
    overage !== undefined && `overage: ${wordOf(overage).toLowerCase()}`,
    ttl?.max_ttl_ms !== undefined && `leases of at most ${formatDuration(ttl.max_ttl_ms)}`,
    rates?.max_reservations_per_minute !== undefined &&
      `${rates.max_reservations_per_minute} reservations a minute`,
    rates?.max_commits_per_minute !== undefined && `${rates.max_commits_per_minute} commits a minute`,
    quotas > 0 && `${quotas} ${quotas === 1 ? 'quota' : 'quotas'}`,
    policy.allowed_action_kinds !== undefined && `only ${policy.allowed_action_kinds.join(', ')}`,
    policy.denied_action_kinds !== undefined && `never ${policy.denied_action_kinds.join(', ')}`,
  ];
  return effects.filter((effect) => typeof effect === 'string');
}

/** The policies of a tenant. */
export function Policies({ tenantId, mayCreate }: { tenantId: string; mayCreate: boolean }): ReactNode {
  const [isCreating, setCreating] = useState(false);
  const list = useList(POLICIES, { tenant_id: tenantId }, ({ policies }: PolicyList) => policies);
  return (
    <Panel
      title="Policies"
      className="span-12"
      flush
      aside={
        mayCreate && (
          <Button size="compact-xs" variant="default" onClick={() => setCreating(true)}>
            Create policy
          </Button>
        )
      }
    >
      {list.error && list.rows === undefined ? (
        <Failure error={list.error} retry={() => void list.refetch()} />
      ) : list.rows === undefined ? (
        <Loading />
      ) : list.rows.length === 0 ? (
        <Empty title="No policies">Only the settings of the tenant and its budgets decide.</Empty>
      ) : (
        <>
          <PolicyTable policies={list.rows} />
          <MoreRows
            shown={list.rows.length}
            hasMore={list.hasNextPage}
            isLoading={list.isFetchingNextPage}
            load={() => void list.fetchNextPage()}
          />
        </>
      )}
      {isCreating && <CreatePolicy tenantId={tenantId} close={() => setCreating(false)} />}
    </Panel>
  );
}

function PolicyTable({ policies }: { policies: readonly Policy[] }): ReactNode {
  return (
    <div className="table-wrap" role="region" aria-label="Policies" tabIndex={0}>
      <table className="table">
        <thead>
          <tr>
            <th>Policy</th>
            <th>Scopes</th>
            <th className="right">Priority</th>
            <th>What it does</th>
            <th>Status</th>
          </tr>
        </thead>
        <tbody>
          {policies.map((policy) => (
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
            </tr>
          ))}
        </tbody>
      </table>
    </div>
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

const OVERAGES = [
  { value: '', label: 'As the budget says' },
  { value: 'REJECT', label: 'Reject' },
  { value: 'ALLOW_IF_AVAILABLE', label: 'Allow if available' },
  { value: 'ALLOW_WITH_OVERDRAFT', label: 'Allow with overdraft' },
];

type Field = 'name' | 'pattern' | 'priority' | 'tokens' | 'reserves' | 'commits';

/** The number that a field has; undefined if it is empty, NaN if it is no count. */
function countOf(text: string): number | undefined {
  const clean = text.replace(/[\s,_]/g, '');
  const count = /^\d{1,10}$/.test(clean) ? Number(clean) : Number.NaN;
  return clean === '' ? undefined : count <= MAX_COUNT ? count : Number.NaN;
}

function CreatePolicy({ tenantId, close }: { tenantId: string; close: () => void }): ReactNode {
  const [fields, setFields] = useState<Readonly<Record<Field, string>>>({
    name: '',
    pattern: `tenant:${tenantId}/*`,
    priority: '0',
    tokens: '',
    reserves: '',
    commits: '',
  });
  const [overage, setOverage] = useState('');
  const [priority, tokens, reserves, commits] = (['priority', 'tokens', 'reserves', 'commits'] as const).map(
    (field) => countOf(fields[field]),
  );
  const create = async (): Promise<void> => {
    await call('POST', POLICIES, {
      tenant_id: tenantId,
      name: fields.name,
      scope_pattern: fields.pattern,
      priority,
      ...(tokens === undefined ? {} : { caps: { max_tokens: tokens } }),
      ...(overage === '' ? {} : { commit_overage_policy: overage }),
      ...(reserves === undefined && commits === undefined
        ? {}
        : { rate_limits: { max_reservations_per_minute: reserves, max_commits_per_minute: commits } }),
    });
    await queryClient.invalidateQueries({ queryKey: [POLICIES] });
  };
  const isWrong = [priority, tokens, reserves, commits].some((count) => Number.isNaN(count));
  const blocked =
    fields.name === ''
      ? 'A name is missing'
      : fields.pattern === ''
        ? 'A pattern of scopes is missing'
        : isWrong
          ? 'Numbers are whole and not negative'
          : undefined;
  const input = (field: Field, label: string, description?: string): ReactNode => (
    <TextInput
      label={label}
      description={description}
      value={fields[field]}
      inputMode={field === 'name' || field === 'pattern' ? 'text' : 'numeric'}
      onChange={({ currentTarget: { value } }) => setFields((old) => ({ ...old, [field]: value }))}
      {...(field === 'name' ? { 'data-autofocus': true } : {})}
    />
  );
  return (
    <ChangeDialog
      title={`Create a policy for ${tenantId}`}
      action="Create policy"
      change={create}
      close={close}
      blocked={blocked}
    >
      {input('name', 'Name')}
      {input('pattern', 'Scopes', 'A scope, in which * stands for any characters')}
      {input('priority', 'Priority', 'The highest one that matches decides')}
      {input('tokens', 'Tokens a call', 'Sent to the client as a cap. Empty: no cap')}
      {input('reserves', 'Reservations a minute', 'Empty: no limit')}
      {input('commits', 'Commits a minute', 'Empty: no limit')}
      <NativeSelect
        label="If a commit costs more than was held"
        data={OVERAGES}
        value={overage}
        onChange={(event) => setOverage(event.currentTarget.value)}
      />
    </ChangeDialog>
  );
}
