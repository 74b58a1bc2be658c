import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { get } from '../../api/client';
import { useMayChange } from '../../api/session';
import type { Tenant } from '../../api/types';
import { EndingCredits } from '../../parts/ending-credits';
import { Loaded } from '../../parts/loaded';
import { PageHead } from '../../parts/panel';
import { Status } from '../../parts/status';
import { useTitle } from '../../parts/title';
import { CloseTenant, Closing } from './close';
import { Figures } from './figures';
import { KeyDetails } from './key-details';
import { Keys } from './keys';
import { Owned } from './limits';
import { Policies } from './policies';
import { Settings } from './settings';
import { Templates } from './templates';

const route = getRouteApi('/tenants/$id');
const EVERY_MS = 5000;

/** One tenant: what it owns and may own, its settings, and its policies. */
export function TenantPage(): ReactNode {
  const { id } = route.useParams();
  useTitle(id);
  const tenant = useQuery({
    queryKey: ['/v1/admin/tenants', id],
    queryFn: () => get('/v1/admin/tenants/{tenant_id}', { tenant_id: id }),
    refetchInterval: EVERY_MS,
  });
  return (
    <Loaded query={tenant} height={400}>
      {(read) => <TenantView tenant={read} />}
    </Loaded>
  );
}

function TenantView({ tenant }: { tenant: Tenant }): ReactNode {
  const { tenant_id: id, status } = tenant;
  const { closing, key } = route.useSearch();
  const navigate = route.useNavigate();
  const [isClosing, setClosing] = useState(false);
  const mayChange = useMayChange() && status !== 'CLOSED';
  return (
    <>
      <PageHead title={tenant.name}>
        <Status value={status} />
        {mayChange && (
          <Button size="compact-sm" variant="default" onClick={() => setClosing(true)}>
            Close tenant
          </Button>
        )}
      </PageHead>
      <div className="grid" style={{ alignItems: 'start' }}>
        {status === 'CLOSED' && <Closing id={id} total={closing} />}
        <Figures id={id} />
        <Owned id={id} mayChange={mayChange} />
        <Settings tenant={tenant} />
        <EndingCredits tenantId={id} />
        <Keys tenantId={id} mayCreate={mayChange && status === 'ACTIVE'} mayChange={mayChange} />
        <Templates tenantId={id} mayChange={mayChange} />
        <Policies tenantId={id} mayChange={mayChange} />
      </div>
      {key !== undefined && (
        <KeyDetails
          id={key}
          mayChange={mayChange}
          close={() => void navigate({ search: {}, resetScroll: false })}
        />
      )}
      {isClosing && (
        <CloseTenant
          tenant={tenant}
          close={() => setClosing(false)}
          started={(total) => void navigate({ search: { closing: total }, replace: true })}
        />
      )}
    </>
  );
}
