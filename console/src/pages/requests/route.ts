import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';
import { textsOf } from '../../parts/search';
import { REQUEST_FILTERS } from './filters';

export const requestsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/requests',
  validateSearch: (search: Record<string, unknown>) => textsOf(search, [...REQUEST_FILTERS, 'cursor', 'row']),
  component: lazyRouteComponent(() => import('./page'), 'Requests'),
});
