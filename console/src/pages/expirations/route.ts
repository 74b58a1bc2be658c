import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';
import { textsOf } from '../../parts/search';

export const expirationsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/expirations',
  validateSearch: (search: Record<string, unknown>) =>
    textsOf(search, ['last', 'from', 'to', 'tenant', 'scope', 'state', 'cursor']),
  component: lazyRouteComponent(() => import('./page'), 'Expirations'),
});
