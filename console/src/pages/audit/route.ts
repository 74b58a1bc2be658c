import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';
import { textsOf } from '../../parts/search';
import { AUDIT_FILTERS } from './filters';

export const auditRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/audit',
  validateSearch: (search: Record<string, unknown>) => textsOf(search, [...AUDIT_FILTERS, 'cursor', 'row']),
  component: lazyRouteComponent(() => import('./page'), 'AuditLog'),
});
