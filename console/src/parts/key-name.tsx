import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../api/client';
import { operatorIn } from './actor';

const MINUTE_MS = 60_000;

/** An API key by its name, which leads to it and to its end. Others are sessions and operators. */
export function KeyName({ id }: { id: string | undefined }): ReactNode {
  const isKey = id !== undefined && /^key_\w+$/.test(id);
  const { data } = useQuery({
    queryKey: ['/ops/api-keys', id],
    queryFn: () => get('/ops/api-keys/{key_id}', { key_id: id ?? '' }),
    enabled: isKey,
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
