import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';
import { textsOf } from '../../parts/search';
import { EVENT_FILTERS } from './filters';

export const eventsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/events',
  validateSearch: (search: Record<string, unknown>) => textsOf(search, [...EVENT_FILTERS, 'cursor', 'event']),
  component: lazyRouteComponent(() => import('./page'), 'Events'),
});
