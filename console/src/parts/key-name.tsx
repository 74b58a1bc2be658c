import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../api/client';
import { operatorIn, whoOf } from './actor';

const MINUTE_MS = 60_000;

const isKey = (id: string | undefined): id is string => /^key_\w+$/.test(id ?? '');

/** An API key by its name, which leads to it and to its end. Others are sessions and operators. */
export function KeyName({ id }: { id: string | undefined }): ReactNode {
  const { data } = useQuery({
    queryKey: ['/ops/api-keys', id],
    queryFn: () => get('/ops/api-keys/{key_id}', { key_id: id ?? '' }),
    enabled: isKey(id),
    staleTime: 5 * MINUTE_MS,
    retry: false,
  });
  if (id === undefined) {
    return <span className="muted">–</span>;
  }
  return data === undefined ? (
    <span className="id">{operatorIn(id) ?? id}</span>
  ) : (
    <Link to="/tenants/$id" params={{ id: data.tenant_id }} search={{ key: id }} title={id}>
      {data.name}
    </Link>
  );
}

/** Who did something: a client by the name of its key, everybody else as `whoOf` says. */
export function Who({
  type,
  tenant,
  id,
}: {
  type: string | undefined;
  tenant: string;
  id: string | undefined;
}): ReactNode {
  return type === 'api_key' && isKey(id) ? <KeyName id={id} /> : whoOf(type, tenant, id);
}
