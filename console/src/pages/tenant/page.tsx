import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { get } from '../../api/client';
import { useMayChange } from '../../api/session';
import type { Tenant } from '../../api/types';
import { formatBytes } from '../../parts/bytes';
import { PageHead, Panel } from '../../parts/panel';
import { Failure, Loading } from '../../parts/states';
import { Status, wordOf } from '../../parts/status';
import { formatDuration, Time } from '../../parts/time';
import { CreateKey } from '../tenants/create-key';
import { CloseTenant, Closing } from './close';
import { limitsPath, type TenantLimits } from './owned';
import { Policies } from './policies';

const route = getRouteApi('/tenants/$id');
const EVERY_MS = 5000;
const COUNT = new Intl.NumberFormat();

/** One tenant: what it owns and may own, its settings, and its policies. */
export function TenantPage(): ReactNode {
  const { id } = route.useParams();
  const { data, error, refetch } = useQuery({
    queryKey: ['/v1/admin/tenants', id],
    queryFn: () => get<Tenant>(`/v1/admin/tenants/${encodeURIComponent(id)}`),
    refetchInterval: EVERY_MS,
  });
  if (data === undefined) {
    return error ? <Failure error={error} retry={() => void refetch()} /> : <Loading height={400} />;
  }
  return <TenantView tenant={data} />;
}

function TenantView({ tenant }: { tenant: Tenant }): ReactNode {
  const { tenant_id: id, status } = tenant;
  const { closing } = route.useSearch();
  const navigate = route.useNavigate();
  const [change, setChange] = useState<'key' | 'close'>();
  const mayChange = useMayChange() && status !== 'CLOSED';
  const close = (): void => setChange(undefined);
  return (
    <>
      <PageHead title={tenant.name}>
        <Status value={status} />
        {mayChange && (
          <>
            {status === 'ACTIVE' && (
              <Button size="compact-sm" variant="default" onClick={() => setChange('key')}>
                Create key
              </Button>
            )}
            <Button size="compact-sm" variant="default" onClick={() => setChange('close')}>
              Close tenant
            </Button>
          </>
        )}
      </PageHead>
      <div className="grid" style={{ alignItems: 'start' }}>
        {status === 'CLOSED' && <Closing id={id} total={closing} />}
        <Owned id={id} />
        <Settings tenant={tenant} />
        <Policies tenantId={id} mayCreate={mayChange} />
      </div>
      {change === 'key' && <CreateKey tenantId={id} close={close} />}
      {change === 'close' && (
        <CloseTenant
          tenant={tenant}
          close={close}
          started={(total) => void navigate({ search: { closing: total }, replace: true })}
        />
      )}
    </>
  );
}

function Owned({ id }: { id: string }): ReactNode {
  const { data, error, refetch } = useQuery({
    queryKey: ['/ops/tenants', id, 'limits'],
    queryFn: () => get<TenantLimits>(limitsPath(id)),
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
      {data === undefined ? (
        error ? (
          <Failure error={error} retry={() => void refetch()} />
        ) : (
          <Loading height={240} />
        )
      ) : (
        <div className="table-wrap" role="region" aria-label="What it owns" tabIndex={0}>
          <table className="table">
            <thead>
              <tr>
                <th>Kind</th>
                <th className="right">Now</th>
                <th className="right">Limit</th>
              </tr>
            </thead>
            <tbody>
              {rows.map(([name, label]) => {
                const { used, limit } = data.limits[name];
                const show = (count: number): string =>
                  name === 'stored_bytes' ? formatBytes(count) : COUNT.format(count);
                return (
                  <tr key={name}>
                    <td>{label}</td>
                    <td className="right num">{show(used)}</td>
                    <td className="right num">
                      {limit === 0 ? <span className="muted">none</span> : show(limit)}
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
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
