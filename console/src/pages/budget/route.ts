import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';
import { textsOf } from '../../parts/search';

/** The scope is in the query, because it contains slashes. */
export const budgetRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/budgets/$unit',
  validateSearch: (search: Record<string, unknown>) => textsOf(search, ['scope']),
  component: lazyRouteComponent(() => import('./page'), 'BudgetPage'),
});
