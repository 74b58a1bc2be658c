import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';
import { textsOf } from '../../parts/search';

/** `prefix` and `hash` are those of a secret, which is no part of an address. */
export const searchRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/search',
  validateSearch: (search: Record<string, unknown>) => textsOf(search, ['q', 'prefix', 'hash']),
  component: lazyRouteComponent(() => import('./page'), 'Search'),
});
