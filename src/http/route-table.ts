import type { FastifyInstance } from 'fastify';

interface Route {
  readonly segments: readonly string[];
  readonly methods: Set<string>;
}

/**
 * Which methods each path knows. The router has a tree for each method, so it takes `GET /webhooks/bulk-action` for the webhook of
 * that name where only `POST /webhooks/bulk-action` exists; OpenAPI matches concrete paths before templates, whatever the method.
 */
export class RouteTable {
  private readonly routes = new Map<string, Route>();
  /** The templates that win over each template with parameters; made when it is first asked for, after all routes are there. */
  private readonly rivals = new Map<string, readonly Route[]>();

  add(template: string, methods: readonly string[]): void {
    const route = this.routes.get(template) ?? { segments: template.split('/'), methods: new Set<string>() };
    for (const method of methods) {
      route.methods.add(method);
    }
    this.routes.set(template, route);
  }

  /** Every route as `GET /v1/reservations/:reservation_id`. */
  list(): string[] {
    return [...this.routes]
      .flatMap(([template, { methods }]) => [...methods].map((method) => `${method} ${template}`))
      .sort();
  }

  /** Whether the path belongs to a more specific template than the one that the router chose for the method. */
  isTakenByAnother(path: string, template: string): boolean {
    const rivals = this.rivalsOf(template);
    if (rivals.length === 0) {
      return false;
    }
    const segments = path.split('/');
    return rivals.some((rival) => matches(rival.segments, segments));
  }

  /** The methods of the path's most specific template. */
  methodsOf(path: string): string[] {
    const segments = path.split('/');
    let best: Route[] = [];
    for (const route of this.routes.values()) {
      if (matches(route.segments, segments)) {
        const order = best[0] === undefined ? 1 : specificity(route.segments, best[0].segments);
        best = order > 0 ? [route] : order === 0 ? [...best, route] : best;
      }
    }
    return [...new Set(best.flatMap(({ methods }) => [...methods]))].sort();
  }

  private rivalsOf(template: string): readonly Route[] {
    let rivals = this.rivals.get(template);
    if (rivals === undefined) {
      const segments = template.split('/');
      rivals = [...this.routes.values()].filter(
        (other) => overlap(other.segments, segments) && specificity(other.segments, segments) > 0,
      );
      this.rivals.set(template, rivals);
    }
    return rivals;
  }
}

const isParameter = (segment: string | undefined): boolean => segment?.startsWith(':') === true;

/** Positive when the first of two templates is the more specific one: it has text where they first differ in kind. */
function specificity(one: readonly string[], other: readonly string[]): number {
  const index = one.findIndex((segment, at) => isParameter(segment) !== isParameter(other[at]));
  return index === -1 ? 0 : isParameter(one[index]) ? -1 : 1;
}

/** Whether a path can match both templates. */
function overlap(one: readonly string[], other: readonly string[]): boolean {
  return (
    one.length === other.length &&
    one.every(
      (segment, index) => segment === other[index] || isParameter(segment) || isParameter(other[index]),
    )
  );
}

function matches(template: readonly string[], path: readonly string[]): boolean {
  return (
    template.length === path.length &&
    template.every((segment, index) => (isParameter(segment) ? path[index] !== '' : segment === path[index]))
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
