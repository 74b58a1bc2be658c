import { Button } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { call } from '../../api/client';
import { useMayChange, queryClient } from '../../api/session';
import type { Tenant } from '../../api/types';
import { ChangeDialog } from '../../parts/change-dialog';
import { type Field, useForm } from '../../parts/form';
import { Panel } from '../../parts/panel';
import { wordOf } from '../../parts/status';
import { formatDuration, Time } from '../../parts/time';
import { OVERAGES } from './policy-form';

const TENANTS = '/v1/admin/tenants';
const wordsOf = (...values: readonly string[]): Record<string, string> =>
  Object.fromEntries(values.map((value) => [value, wordOf(value)]));

/** What happens to a reservation that nobody has settled when its grace is over. */
const EXPIRY_POLICIES: Readonly<Record<Tenant['reservation_expiry_policy'], string>> = {
  AUTO_RELEASE: 'It expires by itself',
  MANUAL_CLEANUP: 'It waits for an operator',
  GRACE_ONLY: 'It expires without a grace',
};
const OBSERVE_MODES: Readonly<Record<Tenant['observe_mode'], string>> = {
  ENFORCE: 'Enforced',
  OBSERVE: 'Only reported: nothing is denied',
  // It differs only in what its events can be compared with.
  DISABLED: 'Enforced',
};

const FIELDS = {
  name: { label: 'Name' },
  status: {
    label: 'Status',
    description: 'Every request of a suspended tenant is refused',
    choices: wordsOf('ACTIVE', 'SUSPENDED'),
  },
  overage: { label: 'If a commit costs more', choices: wordsOf(...OVERAGES) },
  lease: { label: 'Lease in ms', description: 'If the client asks for none', kind: 'number' },
  longest: { label: 'Longest lease in ms', kind: 'number' },
  extensions: { label: 'Extensions of a lease', description: 'At most', kind: 'number' },
  expiry: { label: 'If nobody settles a reservation', choices: EXPIRY_POLICIES },
  observe: {
    label: 'Denials',
    choices: { ...OBSERVE_MODES, DISABLED: 'Enforced, not to be compared with observed ones' },
  },
} as const satisfies Record<string, Field>;

/** The settings of a tenant, and a form that changes them. */
export function Settings({ tenant }: { tenant: Tenant }): ReactNode {
  const [isChanging, setChanging] = useState(false);
  const mayChange = useMayChange() && tenant.status !== 'CLOSED';
  const facts: readonly (readonly [string, ReactNode])[] = [
    ['Id', <span className="id">{tenant.tenant_id}</span>],
    ['If a commit costs more', wordOf(tenant.default_commit_overage_policy)],
    [
      'Lease',
      `${formatDuration(tenant.default_reservation_ttl_ms)}, at most ${formatDuration(tenant.max_reservation_ttl_ms)}`,
    ],
    ['Extensions', `at most ${tenant.max_reservation_extensions}`],
    ['If nobody settles', EXPIRY_POLICIES[tenant.reservation_expiry_policy]],
    ['Denials', OBSERVE_MODES[tenant.observe_mode]],
    ['Created', <Time at={tenant.created_at} />],
    ...(tenant.closed_at === undefined ? [] : [['Closed', <Time at={tenant.closed_at} />] as const]),
  ];
  return (
    <Panel
      title="Settings"
      className="span-6"
      aside={
        mayChange && (
          <Button size="compact-xs" variant="default" onClick={() => setChanging(true)}>
            Change the settings
          </Button>
        )
      }
    >
      <dl className="facts">
        {facts.map(([label, value]) => (
          <div key={label} style={{ display: 'contents' }}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {isChanging && <ChangeSettings tenant={tenant} close={() => setChanging(false)} />}
    </Panel>
  );
}

function ChangeSettings({ tenant, close }: { tenant: Tenant; close: () => void }): ReactNode {
  const form = useForm<keyof typeof FIELDS>(FIELDS, {
    name: tenant.name,
    status: tenant.status,
    overage: tenant.default_commit_overage_policy,
    lease: String(tenant.default_reservation_ttl_ms),
    longest: String(tenant.max_reservation_ttl_ms),
    extensions: String(tenant.max_reservation_extensions),
    expiry: tenant.reservation_expiry_policy,
    observe: tenant.observe_mode,
  });
  const { values, isChanged, count, differences } = form;
  const settings = {
    ...(isChanged('name') ? { name: values.name } : {}),
    ...(isChanged('status') ? { status: values.status as Tenant['status'] } : {}),
    ...(isChanged('overage')
      ? { default_commit_overage_policy: values.overage as Tenant['default_commit_overage_policy'] }
      : {}),
    ...(isChanged('lease') ? { default_reservation_ttl_ms: count('lease') } : {}),
    ...(isChanged('longest') ? { max_reservation_ttl_ms: count('longest') } : {}),
    ...(isChanged('extensions') ? { max_reservation_extensions: count('extensions') } : {}),
    ...(isChanged('observe') ? { observe_mode: values.observe as Tenant['observe_mode'] } : {}),
  };
  const change = async (): Promise<void> => {
    const id = { tenant_id: tenant.tenant_id };
    if (Object.keys(settings).length > 0) {
      await call('patch', `${TENANTS}/{tenant_id}`, id, settings);
    }
    // The protocol has it for new tenants only, so it has an operation of its own.
    if (isChanged('expiry')) {
      await call('put', '/ops/tenants/{tenant_id}/expiry-policy', id, {
        reservation_expiry_policy: values.expiry as Tenant['reservation_expiry_policy'],
      });
    }
    await queryClient.invalidateQueries({ queryKey: [TENANTS] });
  };
  const missing = (['name', 'lease', 'longest', 'extensions'] as const).find((name) => values[name] === '');
  const blocked =
    missing !== undefined
      ? `${FIELDS[missing].label} is missing`
      : (form.problem ?? (differences.length === 0 ? 'Nothing changes yet' : undefined));
  return (
    <ChangeDialog
      title={`Change the settings of ${tenant.tenant_id}`}
      action="Change the settings"
      change={change}
      close={close}
      blocked={blocked}
      differences={differences}
    >
      <p>They apply to new reservations.</p>
      {form.inputs}
    </ChangeDialog>
  );
}
