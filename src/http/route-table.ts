import type { FastifyInstance } from 'fastify';

interface Route {
  readonly segments: readonly string[];
  readonly methods: Set<string>;
}

/** Which methods each path knows. It is asked only when the router found nothing, to tell 405 from 404. */
export class RouteTable {
  private readonly routes = new Map<string, Route>();

  add(template: string, methods: readonly string[]): void {
    const route = this.routes.get(template) ?? { segments: template.split('/'), methods: new Set<string>() };
    for (const method of methods) {
      route.methods.add(method);
    }
    this.routes.set(template, route);
  }

  /** Every route as `GET /v1/reservations/:reservation_id`. */
  list(): string[] {
    return [...this.routes].flatMap(([template, { methods }]) => [...methods].map((method) => `${method} ${template}`)).sort();
  }

  methodsOf(path: string): string[] {
    const segments = path.split('/');
    const methods = new Set<string>();
    for (const route of this.routes.values()) {
      if (matches(route.segments, segments)) {
        for (const method of route.methods) {
          methods.add(method);
        }
      }
    }
    return [...methods].sort();
  }
}

function matches(template: readonly string[], path: readonly string[]): boolean {
  return (
    template.length === path.length &&
    template.every((segment, index) => (segment.startsWith(':') ? path[index] !== '' : segment === path[index]))
  );
}

/** Must run before the first route is registered. */
export function installRouteTable(fastify: FastifyInstance): RouteTable {
  const table = new RouteTable();
  fastify.addHook('onRoute', ({ url, method }) => {
    // Middleware mounts on a bare wildcard, which is no path of the API.
    if (!url.endsWith('*')) {
      table.add(url, Array.isArray(method) ? method : [method]);
    }
  });
  return table;
}
