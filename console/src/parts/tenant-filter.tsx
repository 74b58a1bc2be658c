import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { type ReactNode, useId, useState } from 'react';
import { get } from '../api/client';
import { TextFilter } from './filters';

const SUGGESTED = 10;

/** A filter by tenant, which suggests the ids of tenants whose id or name has what was typed. */
export function TenantFilter({
  label = 'Tenant id',
  value,
  onChange,
}: {
  label?: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}): ReactNode {
  const id = useId();
  const [typed, setTyped] = useState<string>();
  const { data } = useQuery({
    queryKey: ['/v1/admin/tenants', 'suggested', typed],
    queryFn: async () => (await get('/v1/admin/tenants', { search: typed, limit: SUGGESTED })).tenants,
    enabled: typed !== undefined,
    placeholderData: keepPreviousData,
  });
  return (
    <>
      <TextFilter label={label} value={value} onChange={onChange} onInput={setTyped} suggestions={id} />
      <datalist id={id}>
        {data?.map(({ tenant_id: tenant, name }) => (
          <option key={tenant} value={tenant}>
            {name}
          </option>
        ))}
      </datalist>
    </>
  );
}
