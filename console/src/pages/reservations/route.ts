import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';
import { textsOf } from '../../parts/search';

export const RESERVATION_FILTERS = [
  'tenant',
  'status',
  'workspace',
  'app',
  'workflow',
  'agent',
  'toolset',
  'idempotency_key',
  'from',
  'to',
] as const;

export const reservationsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/reservations',
  validateSearch: (search: Record<string, unknown>) => textsOf(search, RESERVATION_FILTERS),
  component: lazyRouteComponent(() => import('./page'), 'Reservations'),
});
