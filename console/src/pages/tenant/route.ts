import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';

/** `closing` is how much the tenant owned when its closing was started, for the progress. */
export const tenantRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/tenants/$id',
  validateSearch: ({ closing }: Record<string, unknown>): { readonly closing?: number } =>
    typeof closing === 'number' && closing >= 0 ? { closing } : {},
  component: lazyRouteComponent(() => import('./page'), 'TenantPage'),
});
