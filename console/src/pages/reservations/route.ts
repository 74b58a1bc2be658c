import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';
import { textsOf } from '../../parts/search';

export const reservationsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/reservations',
  validateSearch: (search: Record<string, unknown>) =>
    textsOf(search, [
      'tenant',
      'status',
      'idempotency_key',
      'workspace',
      'app',
      'workflow',
      'agent',
      'toolset',
      'from',
      'to',
    ]),
  component: lazyRouteComponent(() => import('./page'), 'Reservations'),
});
