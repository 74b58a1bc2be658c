import { NativeSelect, TextInput } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { call } from '../../api/client';
import type { Body } from '../../api/operations';
import { queryClient } from '../../api/session';
import { ChangeDialog } from '../../parts/change-dialog';
import { COUNT, readCount } from '../../parts/numbers';
import { MAX_CALLS, isComplete, type QuotaDraft, quotaLists, Quotas } from './quotas';

export const POLICIES = '/v1/admin/policies';

const OVERAGES = [
  { value: '', label: 'As the budget says' },
  { value: 'REJECT', label: 'Reject' },
  { value: 'ALLOW_IF_AVAILABLE', label: 'Allow if available' },
  { value: 'ALLOW_WITH_OVERDRAFT', label: 'Allow with overdraft' },
];

type Policy = Body<'post', typeof POLICIES>;

type Field = 'name' | 'pattern' | 'priority' | 'tokens' | 'reserves' | 'commits' | 'only' | 'never';

/** The kinds of actions in a field. */
const kindsOf = (text: string): string[] => text.split(/[\s,]+/).filter((kind) => kind !== '');

const TEXTS: ReadonlySet<Field> = new Set<Field>(['name', 'pattern', 'only', 'never']);

export function CreatePolicy({ tenantId, close }: { tenantId: string; close: () => void }): ReactNode {
  const [fields, setFields] = useState<Readonly<Record<Field, string>>>({
    name: '',
    pattern: `tenant:${tenantId}/*`,
    priority: '0',
    tokens: '',
    reserves: '',
    commits: '',
    only: '',
    never: '',
  });
  const [quotas, setQuotas] = useState<readonly QuotaDraft[]>([]);
  const [overage, setOverage] = useState<Policy['commit_overage_policy']>();
  const [priority, tokens, reserves, commits] = (['priority', 'tokens', 'reserves', 'commits'] as const).map(
    (field) => readCount(fields[field]),
  );
  const create = async (): Promise<void> => {
    await call(
      'post',
      POLICIES,
      {},
      {
        tenant_id: tenantId,
        name: fields.name,
        scope_pattern: fields.pattern,
        priority,
        ...(tokens === undefined ? {} : { caps: { max_tokens: tokens } }),
        commit_overage_policy: overage,
        ...(reserves === undefined && commits === undefined
          ? {}
          : { rate_limits: { max_reservations_per_minute: reserves, max_commits_per_minute: commits } }),
        ...quotaLists(quotas),
        allowed_action_kinds: kindsOf(fields.only),
        denied_action_kinds: kindsOf(fields.never),
      },
    );
    await queryClient.invalidateQueries({ queryKey: [POLICIES] });
  };
  const isWrong = [priority, tokens, reserves, commits].some((count) => Number.isNaN(count));
  const blocked =
    fields.name === ''
      ? 'A name is missing'
      : fields.pattern === ''
        ? 'A pattern of scopes is missing'
        : isWrong
          ? `Numbers are whole and not negative, such as ${COUNT.format(1234)}`
          : !quotas.every(isComplete)
            ? `A quota has a kind, and 1 to ${COUNT.format(MAX_CALLS)} actions`
            : undefined;
  const input = (field: Field, label: string, description?: string): ReactNode => (
    <TextInput
      label={label}
      description={description}
      value={fields[field]}
      inputMode={TEXTS.has(field) ? 'text' : 'numeric'}
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
        value={overage ?? ''}
        onChange={(event) => setOverage((event.currentTarget.value || undefined) as typeof overage)}
      />
      {input('only', 'Only these kinds of actions', 'Separated by commas. Empty: all')}
      {input('never', 'Never these kinds of actions', 'Empty: none. Not together with the field above')}
      <Quotas drafts={quotas} onChange={setQuotas} />
    </ChangeDialog>
  );
}
