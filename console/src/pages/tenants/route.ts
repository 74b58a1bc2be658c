import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';
import { textsOf } from '../../parts/search';

export const tenantsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/tenants',
  validateSearch: (search: Record<string, unknown>) => textsOf(search, ['search', 'status']),
  component: lazyRouteComponent(() => import('./page'), 'Tenants'),
});
