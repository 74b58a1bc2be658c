import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';
import { textsOf } from '../../parts/search';

export const AUDIT_FILTERS = [
  'tenant_id',
  'operation',
  'status',
  'error_code',
  'key_id',
  'resource_type',
  'resource_id',
  'request_id',
  'trace_id',
  'from',
  'to',
] as const;

export const auditRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/audit',
  validateSearch: (search: Record<string, unknown>) => textsOf(search, [...AUDIT_FILTERS, 'cursor', 'row']),
  component: lazyRouteComponent(() => import('./page'), 'AuditLog'),
});
