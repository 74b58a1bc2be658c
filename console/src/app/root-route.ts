import { createRootRoute } from '@tanstack/react-router';
import { NotFound, Shell } from './shell';

/** Every page is a child of this route, whose component is the frame around them and the log-in in front of them. */
export const rootRoute = createRootRoute({ component: Shell, notFoundComponent: NotFound });
