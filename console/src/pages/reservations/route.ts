import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';
import { textsOf } from '../../parts/search';
import { RESERVATION_FILTERS } from './filters';

export const reservationsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/reservations',
  validateSearch: (search: Record<string, unknown>) => textsOf(search, RESERVATION_FILTERS),
  component: lazyRouteComponent(() => import('./page'), 'Reservations'),
});
