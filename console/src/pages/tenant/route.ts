import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';

/** `closing` is how much the tenant owned when its closing was started, for the progress; `key` is the API key whose details are shown. */
export const tenantRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/tenants/$id',
  validateSearch: ({
    closing,
    key,
  }: Record<string, unknown>): { readonly closing?: number; readonly key?: string } => ({
    ...(typeof closing === 'number' && closing >= 0 ? { closing } : {}),
    ...(typeof key === 'string' ? { key } : {}),
  }),
  component: lazyRouteComponent(() => import('./page'), 'TenantPage'),
});
