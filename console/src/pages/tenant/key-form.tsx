import { type ReactNode, useState } from 'react';
import {
  DEFAULT_PERMISSIONS,
  type Permission,
  PERMISSION_WORDS,
  PERMISSIONS,
} from '../../../../src/auth/permissions';
import { call } from '../../api/client';
import type { Schema } from '../../api/operations';
import { queryClient } from '../../api/session';
import { ChangeDialog } from '../../parts/change-dialog';
import { Checks } from '../../parts/checks';
import { type Field, partsOf, useForm } from '../../parts/form';
import { SecretDialog } from '../../parts/secret-dialog';
import { API_KEYS } from './owned';

export type ApiKey = Schema<'ApiKey'>;

/** What a form does: makes a key, changes one, or makes one that takes over from another. */
type Purpose = 'create' | 'edit' | 'rotate';

const FIELDS: Readonly<Record<'name' | 'description' | 'scopes' | 'ends', Field>> = {
  name: { label: 'Name', description: 'What uses it, for the list of keys' },
  description: { label: 'Description' },
  scopes: {
    label: 'Only in scopes',
    description: 'Such as workspace:eng or workspace:eng/agent:*, one a line. Empty: all of the tenant',
    kind: 'lines',
  },
  ends: { label: 'Ends', description: 'Empty: after 90 days', kind: 'time' },
};

const WORDS: Readonly<Record<Purpose, { readonly action: string; title: (name: string) => string }>> = {
  create: { action: 'Create key', title: (tenant) => `Create a key for ${tenant}` },
  edit: { action: 'Change the key', title: (name) => `Change ${name}` },
  rotate: { action: 'Create its successor', title: (name) => `Rotate ${name}` },
};

const resourceOf = (permission: string): string => permission.slice(0, permission.indexOf(':'));
const CLIENTS = ['reservations', 'balances'];
/** Those of the form admin:budgets:read are kept for old keys, and no operation needs them. */
const isLegacy = (permission: string): boolean => permission.split(':').length === 3;

/** The permissions that a key can be given, and those that it has. */
function groupsFor(before: readonly string[]): Parameters<typeof Checks>[0]['groups'] {
  const offered = PERMISSIONS.filter((one) => !isLegacy(one) || before.includes(one));
  const of = (test: (resource: string) => boolean): Permission[] =>
    offered.filter((one) => test(resourceOf(one)));
  return [
    { name: 'Clients', choices: of((resource) => CLIENTS.includes(resource)) },
    { name: 'Governance', choices: of((resource) => ![...CLIENTS, 'admin'].includes(resource)) },
    { name: 'Everything of a kind', choices: of((resource) => resource === 'admin') },
  ];
}

const sameOf = (one: ReadonlySet<string>, other: readonly string[]): boolean =>
  one.size === other.length && other.every((entry) => one.has(entry));

/** Makes or changes an API key. The secret of a new one is shown, and nobody can read it again. */
export function KeyForm({
  tenantId,
  purpose,
  apiKey,
  close,
}: {
  tenantId: string;
  purpose: Purpose;
  apiKey?: ApiKey | undefined;
  close: () => void;
}): ReactNode {
  const before: readonly string[] = apiKey?.permissions ?? DEFAULT_PERMISSIONS;
  const { ends, ...others } = FIELDS;
  const form = useForm(purpose === 'edit' ? { ...others, ends: { ...ends, disabled: true } } : FIELDS, {
    name: apiKey?.name ?? '',
    description: apiKey?.description ?? '',
    scopes: apiKey?.scope_filter.join('\n') ?? '',
    ends: purpose === 'edit' ? (apiKey?.expires_at ?? '') : '',
  });
  const { values } = form;
  const [permissions, setPermissions] = useState<ReadonlySet<string>>(() => new Set(before));
  const [secret, setSecret] = useState<string>();
  if (secret !== undefined) {
    return (
      <SecretDialog title="The new key" secret={secret} close={close}>
        {purpose === 'rotate' && (
          <p>
            The old key works, too. Give its users the new one, see in the list when the old one was last
            used, and revoke it.
          </p>
        )}
      </SecretDialog>
    );
  }
  const change = async (): Promise<void> => {
    const body = {
      name: values.name,
      description: values.description,
      permissions: [...permissions] as Permission[],
      scope_filter: partsOf(values.scopes),
    };
    if (purpose === 'edit' && apiKey !== undefined) {
      await call('patch', `${API_KEYS}/{key_id}`, { key_id: apiKey.key_id }, body);
    } else {
      const made = await call(
        'post',
        API_KEYS,
        {},
        {
          ...body,
          tenant_id: tenantId,
          metadata: apiKey?.metadata,
          expires_at: values.ends === '' ? undefined : values.ends,
        },
      );
      setSecret(made.key_secret);
    }
    await queryClient.invalidateQueries({ queryKey: [API_KEYS] });
  };
  const isSame = sameOf(permissions, before);
  const differences = [
    ...form.differences,
    ...(isSame ? [] : [{ label: 'Permissions', before: before.length, after: permissions.size }]),
  ];
  const blocked =
    values.name === ''
      ? 'A name is missing'
      : permissions.size === 0
        ? 'A key without a permission may do nothing'
        : purpose === 'edit' && differences.length === 0
          ? 'Nothing changes yet'
          : undefined;
  const { action, title } = WORDS[purpose];
  return (
    <ChangeDialog
      title={title(apiKey?.name ?? tenantId)}
      action={action}
      change={change}
      close={purpose === 'edit' ? close : () => undefined}
      cancel={close}
      blocked={blocked}
      differences={purpose === 'edit' ? differences : []}
    >
      {form.inputs}
      <Checks
        legend="Permissions"
        groups={groupsFor(before)}
        words={PERMISSION_WORDS}
        chosen={permissions}
        onChange={setPermissions}
      />
    </ChangeDialog>
  );
}
