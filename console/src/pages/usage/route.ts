import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';
import { textsOf } from '../../parts/search';
import { USAGE_FILTERS } from './filters';

export const usageRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/usage',
  validateSearch: (search: Record<string, unknown>) => textsOf(search, USAGE_FILTERS),
  component: lazyRouteComponent(() => import('./page'), 'UsagePage'),
});
