import { createRouter } from '@tanstack/react-router';
import { focusNextHeading } from '../parts/heading';
import { Failure } from '../parts/states';
import { auditRoute } from '../pages/audit/route';
import { budgetRoute } from '../pages/budget/route';
import { budgetsRoute } from '../pages/budgets/route';
import { eventsRoute } from '../pages/events/route';
import { expirationsRoute } from '../pages/expirations/route';
import { maintenanceRoute } from '../pages/maintenance/route';
import { operatorsRoute } from '../pages/operators/route';
import { overviewRoute } from '../pages/overview/route';
import { requestsRoute } from '../pages/requests/route';
import { reservationRoute } from '../pages/reservation/route';
import { reservationsRoute } from '../pages/reservations/route';
import { searchRoute } from '../pages/search/route';
import { sweeperRoute } from '../pages/sweeper/route';
import { usageRoute } from '../pages/usage/route';
import { tenantRoute } from '../pages/tenant/route';
import { tenantsRoute } from '../pages/tenants/route';
import { verifyRoute } from '../pages/verify/route';
import { webhookRoute } from '../pages/webhook/route';
import { webhooksRoute } from '../pages/webhooks/route';
import { rootRoute } from './root-route';

/** Each page has a folder with route.ts, which is loaded at once, and page.tsx, which is loaded when somebody opens it. */
const routeTree = rootRoute.addChildren([
  overviewRoute,
  tenantsRoute,
  tenantRoute,
  budgetsRoute,
  budgetRoute,
  reservationsRoute,
  reservationRoute,
  usageRoute,
  sweeperRoute,
  webhooksRoute,
  webhookRoute,
  operatorsRoute,
  verifyRoute,
  maintenanceRoute,
  expirationsRoute,
  eventsRoute,
  requestsRoute,
  auditRoute,
  searchRoute,
]);

export const router = createRouter({
  routeTree,
  basepath: '/console',
  defaultPreload: 'intent',
  scrollRestoration: true,
  defaultErrorComponent: ({ error }) => (
    <Failure
      error={error instanceof Error ? error : new Error(String(error))}
      retry={() => window.location.reload()}
    />
  ),
});

// The first page that a browser loads starts at its top, as every document does.
router.subscribe('onBeforeLoad', ({ fromLocation, pathChanged }) => {
  if (fromLocation !== undefined && pathChanged) {
    focusNextHeading();
  }
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
