import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';
import { textsOf } from '../../parts/search';

export const budgetsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/budgets',
  validateSearch: (search: Record<string, unknown>) =>
    textsOf(search, ['tenant_id', 'search', 'unit', 'status', 'sort_by', 'sort_dir']),
  component: lazyRouteComponent(() => import('./page'), 'Budgets'),
});
