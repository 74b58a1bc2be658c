import { TextInput } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { type OperatorRole, ROLE_WORDS } from '../../../../src/auth/operator-roles';
import { call } from '../../api/client';
import type { Schema } from '../../api/operations';
import { queryClient } from '../../api/session';
import { ChangeDialog } from '../../parts/change-dialog';
import { type Field, useForm } from '../../parts/form';
import { SecretDialog } from '../../parts/secret-dialog';
import { wordOf } from '../../parts/status';

export const OPERATORS = '/ops/operators';
const ONE = `${OPERATORS}/{name}` as const;

const NAME = /^[a-z0-9][a-z0-9._@+-]{0,127}$/;
const ROLES: readonly OperatorRole[] = ['operator', 'viewer', 'metrics', 'admin'];
const HOUR_MS = 3_600_000;
const OVERLAPS = { 0: 'Not at all', 1: 'An hour', 24: 'A day', 168: 'A week' };

const ENDS: Field = { label: 'Ends', description: 'Empty: never', kind: 'time' };
const TENANTS: Field = {
  label: 'Tenants',
  description: 'Ids, or how they begin, as in team-*; empty: the whole deployment',
};
const CREATE: Readonly<Record<'name' | 'role' | 'tenants' | 'ends', Field>> = {
  name: { label: 'Name', description: 'Such as an e-mail address. It is never given again' },
  role: { label: 'Role', choices: Object.fromEntries(ROLES.map((role) => [role, wordOf(role)])) },
  tenants: TENANTS,
  ends: ENDS,
};
const ROTATE: Readonly<Record<'overlap' | 'ends', Field>> = {
  overlap: { label: 'The old key still works for', choices: OVERLAPS },
  ends: { ...ENDS, label: 'The new key ends', description: 'Empty: when the one before would' },
};
const CHANGE: Readonly<Record<'role' | 'tenants', Field>> = { role: CREATE.role, tenants: TENANTS };

const EVERYTHING = '*';
const tenantsIn = (text: string): string[] => {
  const named = text.split(/[\s,]+/).filter((entry) => entry !== '');
  return named.length === 0 ? [EVERYTHING] : named;
};

const refresh = (): Promise<void> => queryClient.invalidateQueries({ queryKey: [OPERATORS] });
const instantOf = (ends: string): string | undefined => (ends === '' ? undefined : ends);

/** Makes an operator and shows the key, which nobody can read again. */
export function CreateOperator({ close }: { close: () => void }): ReactNode {
  const form = useForm(CREATE, { name: '', role: 'operator', tenants: '', ends: '' });
  const [secret, setSecret] = useState<string>();
  if (secret !== undefined) {
    return <SecretDialog title="The new key" secret={secret} close={close} />;
  }
  const { name, ends } = form.values;
  const tenants = tenantsIn(form.values.tenants);
  const role = form.values.role as OperatorRole;
  const create = async (): Promise<void> => {
    const made = await call('post', OPERATORS, {}, { name, role, tenants, expires_at: instantOf(ends) });
    setSecret(made.key_secret);
    await refresh();
  };
  return (
    <ChangeDialog
      title="Create an operator"
      action="Create operator"
      change={create}
      close={() => undefined}
      cancel={close}
      blocked={NAME.test(name) ? undefined : 'A name of lower-case letters, digits and . _ @ + -'}
    >
      {form.input('name')}
      {form.input('role')}
      <p className="muted small">{ROLE_WORDS[role].replaceAll('`', '')}</p>
      {form.input('tenants')}
      {form.input('ends')}
    </ChangeDialog>
  );
}

/** Gives an operator another role, or other tenants. */
export function ChangeOperator({
  name,
  role,
  tenants,
  close,
}: Schema<'Operator'> & { close: () => void }): ReactNode {
  const form = useForm(CHANGE, { role, tenants: tenants.includes(EVERYTHING) ? '' : tenants.join(' ') });
  const chosen = form.values.role as OperatorRole;
  const change = async (): Promise<void> => {
    await call(
      'patch',
      ONE,
      { name },
      {
        ...(form.isChanged('role') && { role: chosen }),
        ...(form.isChanged('tenants') && { tenants: tenantsIn(form.values.tenants) }),
      },
    );
    await refresh();
  };
  return (
    <ChangeDialog
      title={`Change ${name}`}
      action="Change the operator"
      change={change}
      close={close}
      blocked={form.isChanged('role', 'tenants') ? undefined : 'Nothing changes yet'}
      differences={form.differences}
    >
      {form.input('role')}
      <p className="muted small">{ROLE_WORDS[chosen].replaceAll('`', '')}</p>
      {form.input('tenants')}
    </ChangeDialog>
  );
}

/** Gives an operator a new key and shows it. */
export function RotateOperator({ name, close }: { name: string; close: () => void }): ReactNode {
  const form = useForm(ROTATE, { overlap: '24', ends: '' });
  const [secret, setSecret] = useState<string>();
  if (secret !== undefined) {
    return <SecretDialog title={`The new key of ${name}`} secret={secret} close={close} />;
  }
  const rotate = async (): Promise<void> => {
    const { overlap, ends } = form.values;
    const body = { overlap_ms: Number(overlap) * HOUR_MS, expires_at: instantOf(ends) };
    const rotated = await call('post', `${ONE}/rotate`, { name }, body);
    setSecret(rotated.key_secret);
    await refresh();
  };
  return (
    <ChangeDialog
      title={`Rotate ${name}`}
      action="Create its new key"
      change={rotate}
      close={() => undefined}
      cancel={close}
    >
      {form.inputs}
    </ChangeDialog>
  );
}

export function RevokeOperator({ name, close }: { name: string; close: () => void }): ReactNode {
  const [reason, setReason] = useState('');
  const revoke = async (): Promise<void> => {
    await call('delete', ONE, { name, reason });
    await refresh();
  };
  return (
    <ChangeDialog
      title={`Revoke ${name}`}
      action="Revoke"
      danger
      change={revoke}
      close={close}
      differences={[{ label: 'Status', before: 'Active', after: 'Revoked' }]}
    >
      <p>
        The keys and the sessions of {name} end within a second. <strong>Nobody can undo it</strong>, and
        nobody else can get this name.
      </p>
      <TextInput
        label="Reason"
        description="For the list of operators and the audit log"
        value={reason}
        maxLength={512}
        onChange={(event) => setReason(event.currentTarget.value)}
        data-autofocus
      />
    </ChangeDialog>
  );
}
