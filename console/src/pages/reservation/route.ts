import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';

export const reservationRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/reservations/$id',
  component: lazyRouteComponent(() => import('./page'), 'ReservationPage'),
});
