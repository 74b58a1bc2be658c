import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';
import { textsOf } from '../../parts/search';

export const EVENT_FILTERS = [
  'event_type',
  'category',
  'tenant_id',
  'scope',
  'from',
  'to',
  'correlation_id',
  'trace_id',
  'request_id',
] as const;

export const eventsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/events',
  validateSearch: (search: Record<string, unknown>) => textsOf(search, [...EVENT_FILTERS, 'cursor', 'event']),
  component: lazyRouteComponent(() => import('./page'), 'Events'),
});
