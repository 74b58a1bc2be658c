import { type ReactNode, useState } from 'react';
import { call } from '../../api/client';
import type { Body, Schema } from '../../api/operations';
import { queryClient } from '../../api/session';
import { ChangeDialog } from '../../parts/change-dialog';
import { type Field, type Form, partsOf, useForm } from '../../parts/form';
import { COUNT } from '../../parts/numbers';
import { wordOf } from '../../parts/status';
import { draftsOf, isComplete, MAX_CALLS, type QuotaDraft, quotaLists, Quotas } from './quotas';

export const POLICIES = '/v1/admin/policies';

type Policy = Schema<'Policy'>;
type Settings = Body<'patch', `${typeof POLICIES}/{policy_id}`>;

export const OVERAGES = ['REJECT', 'ALLOW_IF_AVAILABLE', 'ALLOW_WITH_OVERDRAFT'] as const;

type Name =
  | 'name'
  | 'pattern'
  | 'status'
  | 'priority'
  | 'tokens'
  | 'reserves'
  | 'commits'
  | 'lease'
  | 'longest'
  | 'overage'
  | 'only'
  | 'never'
  | 'from'
  | 'until';

/** What a policy says that has been stored cannot be taken back to nothing: who pays for an overage, and its first and last instant. */
function fieldsOf(policy: Policy | undefined): Readonly<Record<Name, Field>> {
  const overages = OVERAGES.map((value) => [value, wordOf(value)] as const);
  const none = policy?.commit_overage_policy === undefined ? [['', 'As the budget says'] as const] : [];
  return {
    name: { label: 'Name' },
    pattern: {
      label: 'Scopes',
      description: 'A scope, in which * stands for any characters',
      disabled: policy !== undefined,
    },
    status: {
      label: 'Status',
      choices: { ACTIVE: 'Active', DISABLED: 'Disabled' },
      disabled: policy === undefined,
    },
    priority: { label: 'Priority', description: 'The highest one that matches decides', kind: 'number' },
    tokens: {
      label: 'Tokens a call',
      description: 'Sent to the client as a cap. Empty: no cap',
      kind: 'number',
    },
    reserves: { label: 'Reservations a minute', description: 'Empty: no limit', kind: 'number' },
    commits: { label: 'Commits a minute', description: 'Empty: no limit', kind: 'number' },
    lease: {
      label: 'Lease in ms',
      description: 'If the client asks for none. Empty: as the tenant says',
      kind: 'number',
    },
    longest: { label: 'Longest lease in ms', description: 'Empty: as the tenant says', kind: 'number' },
    overage: {
      label: 'If a commit costs more than was held',
      choices: Object.fromEntries([...none, ...overages]),
    },
    only: { label: 'Only these kinds of actions', description: 'Separated by commas. Empty: all' },
    never: {
      label: 'Never these kinds of actions',
      description: 'Empty: none. Not together with the field above',
    },
    from: { label: 'Applies from', description: 'Empty: at once', kind: 'time' },
    until: { label: 'Applies until', description: 'Empty: without an end', kind: 'time' },
  };
}

function valuesOf(policy: Policy | undefined, tenantId: string): Record<Name, string> {
  const { caps, rate_limits: rates, reservation_ttl_override: lease } = policy ?? {};
  const text = (value: number | bigint | string | undefined): string => value?.toString() ?? '';
  return {
    name: policy?.name ?? '',
    pattern: policy?.scope_pattern ?? `tenant:${tenantId}/*`,
    status: policy?.status ?? 'ACTIVE',
    priority: text(policy?.priority ?? 0),
    tokens: text(caps?.max_tokens),
    reserves: text(rates?.max_reservations_per_minute),
    commits: text(rates?.max_commits_per_minute),
    lease: text(lease?.default_ttl_ms),
    longest: text(lease?.max_ttl_ms),
    overage: policy?.commit_overage_policy ?? '',
    only: policy?.allowed_action_kinds.join(', ') ?? '',
    never: policy?.denied_action_kinds.join(', ') ?? '',
    from: policy?.effective_from ?? '',
    until: policy?.effective_until ?? '',
  };
}

/** What was changed: of a policy that is new, all that is not empty. */
function settingsOf({ values, isChanged, count }: Form<Name>, policy: Policy | undefined): Partial<Settings> {
  const { caps, rate_limits: rates, reservation_ttl_override: lease } = policy ?? {};
  return {
    ...(isChanged('priority') ? { priority: count('priority') ?? 0 } : {}),
    ...(isChanged('tokens') ? { caps: { ...caps, max_tokens: count('tokens') } } : {}),
    ...(isChanged('reserves', 'commits')
      ? {
          rate_limits: {
            ...rates,
            max_reservations_per_minute: count('reserves'),
            max_commits_per_minute: count('commits'),
          },
        }
      : {}),
    ...(isChanged('lease', 'longest')
      ? {
          reservation_ttl_override: {
            ...lease,
            default_ttl_ms: count('lease'),
            max_ttl_ms: count('longest'),
          },
        }
      : {}),
    ...(isChanged('overage')
      ? { commit_overage_policy: values.overage as Settings['commit_overage_policy'] }
      : {}),
    ...(isChanged('only') ? { allowed_action_kinds: partsOf(values.only) } : {}),
    ...(isChanged('never') ? { denied_action_kinds: partsOf(values.never) } : {}),
    ...(isChanged('from') ? { effective_from: values.from } : {}),
    ...(isChanged('until') ? { effective_until: values.until } : {}),
  };
}

/** Creates a policy, or changes one. */
export function PolicyForm({
  tenantId,
  policy,
  close,
}: {
  tenantId: string;
  policy?: Policy | undefined;
  close: () => void;
}): ReactNode {
  const form = useForm(fieldsOf(policy), valuesOf(policy, tenantId));
  const { values, isChanged } = form;
  const [known] = useState(() => draftsOf(policy));
  const [quotas, setQuotas] = useState<readonly QuotaDraft[]>(known);
  const change = async (): Promise<void> => {
    const settings = { ...settingsOf(form, policy), ...(quotas === known ? {} : quotaLists(quotas)) };
    const { name, pattern, status } = values;
    await (policy === undefined
      ? call('post', POLICIES, {}, { ...settings, tenant_id: tenantId, name, scope_pattern: pattern })
      : call(
          'patch',
          `${POLICIES}/{policy_id}`,
          { policy_id: policy.policy_id },
          {
            ...settings,
            ...(isChanged('name') ? { name } : {}),
            ...(isChanged('status') ? { status: status as Policy['status'] } : {}),
          },
        ));
    await queryClient.invalidateQueries({ queryKey: [POLICIES] });
  };
  const cleared = (['from', 'until'] as const).find((name) => isChanged(name) && values[name] === '');
  const blocked =
    values.name === ''
      ? 'A name is missing'
      : values.pattern === ''
        ? 'A pattern of scopes is missing'
        : (form.problem ??
          (!quotas.every(isComplete)
            ? `A quota has a kind, and 1 to ${COUNT.format(MAX_CALLS)} actions`
            : cleared !== undefined
              ? 'The first and the last instant can be moved, not removed'
              : policy !== undefined && form.differences.length === 0 && quotas === known
                ? 'Nothing changes yet'
                : undefined));
  return (
    <ChangeDialog
      title={policy === undefined ? `Create a policy for ${tenantId}` : `Change ${policy.name}`}
      action={policy === undefined ? 'Create policy' : 'Change the policy'}
      change={change}
      close={close}
      blocked={blocked}
      differences={policy === undefined ? [] : form.differences}
    >
      {form.inputs}
      <Quotas drafts={quotas} onChange={setQuotas} />
    </ChangeDialog>
  );
}
