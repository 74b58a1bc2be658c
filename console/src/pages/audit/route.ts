import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';
import { textsOf } from '../../parts/search';

export const auditRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/audit',
  validateSearch: (search: Record<string, unknown>) =>
    textsOf(search, [
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
      'cursor',
      'row',
    ]),
  component: lazyRouteComponent(() => import('./page'), 'AuditLog'),
});
