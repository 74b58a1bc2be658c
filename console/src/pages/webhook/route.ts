import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';
import { textsOf } from '../../parts/search';

/** `replay` and `queued` are those of a replay whose progress is shown, `delivery` is one whose details are. */
export const webhookRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/webhooks/$id',
  validateSearch: (search: Record<string, unknown>) =>
    textsOf(search, ['status', 'replay', 'queued', 'delivery']),
  component: lazyRouteComponent(() => import('./page'), 'WebhookPage'),
});
