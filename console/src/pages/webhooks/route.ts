import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';
import { textsOf } from '../../parts/search';

export const webhooksRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/webhooks',
  validateSearch: (search: Record<string, unknown>) =>
    textsOf(search, ['search', 'tenant_id', 'status', 'sort_by']),
  component: lazyRouteComponent(() => import('./page'), 'Webhooks'),
});
