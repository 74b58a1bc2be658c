import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { rootRoute } from '../../app/root-route';

export interface SweeperSearch {
  readonly partition?: string;
  readonly reservation?: string;
}

export const sweeperRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/sweeper',
  validateSearch: ({ partition, reservation }: Record<string, unknown>): SweeperSearch => ({
    ...(typeof partition === 'string' && /^[0-9a-f]{2}$/.test(partition) ? { partition } : {}),
    ...(typeof reservation === 'string' && reservation !== '' ? { reservation } : {}),
  }),
  component: lazyRouteComponent(() => import('./page'), 'Sweeper'),
});
