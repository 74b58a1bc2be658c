import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { get } from '../../api/client';
import { useMayChange } from '../../api/session';
import type { Tenant } from '../../api/types';
import { formatBytes } from '../../parts/bytes';
import { Loaded } from '../../parts/loaded';
import { COUNT } from '../../parts/numbers';
import { PageHead, Panel } from '../../parts/panel';
import { Status, wordOf } from '../../parts/status';
import { Table } from '../../parts/table';
import { formatDuration, Time } from '../../parts/time';
import { useTitle } from '../../parts/title';
import { CloseTenant, Closing } from './close';
import { Keys } from './keys';
import { Policies } from './policies';

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
  const { closing } = route.useSearch();
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
        <Owned id={id} />
        <Settings tenant={tenant} />
        <Keys tenantId={id} mayCreate={mayChange && status === 'ACTIVE'} mayRevoke={mayChange} />
        <Policies tenantId={id} mayCreate={mayChange} />
      </div>
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

function Owned({ id }: { id: string }): ReactNode {
  const limits = useQuery({
    queryKey: ['/ops/tenants', id, 'limits'],
    queryFn: () => get('/ops/tenants/{tenant_id}/limits', { tenant_id: id }),
    refetchInterval: EVERY_MS,
  });
  const rows = [
    [
      'live_reservations',
      <Link to="/reservations" search={{ tenant: id, status: 'ACTIVE' }}>
        Live holds
      </Link>,
    ],
    [
      'budgets',
      <Link to="/budgets" search={{ tenant_id: id }}>
        Budgets
      </Link>,
    ],
    [
      'webhooks',
      <Link to="/webhooks" search={{ tenant_id: id }}>
        Subscriptions
      </Link>,
    ],
    ['api_keys', 'API keys'],
    ['policies', 'Policies'],
    ['stored_bytes', 'Stored'],
  ] as const;
  return (
    <Panel title="What it owns" className="span-6" flush>
      <Loaded query={limits} height={240}>
        {({ limits: owned }) => (
          <Table label="What it owns" columns={['Kind', { right: 'Now' }, { right: 'Limit' }]} items={rows}>
            {([name, label]) => {
              const { used, limit } = owned[name];
              const show = name === 'stored_bytes' ? formatBytes : (count: number) => COUNT.format(count);
              return (
                <tr key={name}>
                  <td>{label}</td>
                  <td className="right num">{show(used)}</td>
                  <td className="right num">
                    {limit === 0 ? <span className="muted">none</span> : show(limit)}
                  </td>
                </tr>
              );
            }}
          </Table>
        )}
      </Loaded>
    </Panel>
  );
}

function Settings({ tenant }: { tenant: Tenant }): ReactNode {
  const facts: readonly (readonly [string, ReactNode])[] = [
    ['Id', <span className="id">{tenant.tenant_id}</span>],
    ['If a commit costs more', wordOf(tenant.default_commit_overage_policy)],
    [
      'Lease',
      `${formatDuration(tenant.default_reservation_ttl_ms)}, at most ${formatDuration(tenant.max_reservation_ttl_ms)}`,
    ],
    ['Extensions', `at most ${tenant.max_reservation_extensions}`],
    ['After the grace', wordOf(tenant.reservation_expiry_policy)],
    ['Created', <Time at={tenant.created_at} />],
    ...(tenant.closed_at === undefined ? [] : [['Closed', <Time at={tenant.closed_at} />] as const]),
  ];
  return (
    <Panel title="Settings" className="span-6">
      <dl className="facts">
        {facts.map(([label, value]) => (
          <div key={label} style={{ display: 'contents' }}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}
