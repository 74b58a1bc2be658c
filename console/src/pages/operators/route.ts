import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';
import { textsOf } from '../../parts/search';

export const operatorsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/operators',
  validateSearch: (search: Record<string, unknown>) => textsOf(search, ['status']),
  component: lazyRouteComponent(() => import('./page'), 'Operators'),
});
