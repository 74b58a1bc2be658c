import type { FastifyInstance } from 'fastify';

interface Route {
  readonly segments: readonly string[];
  readonly methods: Set<string>;
}

/**
 * The methods of each path. The router has a separate tree per method. If only `POST /webhooks/bulk-action` exists, it would route
 * `GET /webhooks/bulk-action` to `GET /webhooks/:id`. In OpenAPI, concrete paths take precedence over templates for all methods.
 */
export class RouteTable {
  private readonly routes = new Map<string, Route>();
  /** For each template, the more specific ones that can match the same path. Computed on demand, after all routes are known. */
  private readonly moreSpecific = new Map<string, readonly Route[]>();

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

  /** Whether the path matches a more specific template than the one that the router chose. */
  matchesMoreSpecific(path: string, template: string): boolean {
    const templates = this.moreSpecificThan(template);
    if (templates.length === 0) {
      return false;
    }
    const segments = path.split('/');
    return templates.some((other) => matches(other.segments, segments));
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

  private moreSpecificThan(template: string): readonly Route[] {
    let templates = this.moreSpecific.get(template);
    if (templates === undefined) {
      const segments = template.split('/');
      templates = [...this.routes.values()].filter(
        (other) => overlap(other.segments, segments) && specificity(other.segments, segments) > 0,
      );
      this.moreSpecific.set(template, templates);
    }
    return templates;
  }
}

const isParameter = (segment: string | undefined): boolean => segment?.startsWith(':') === true;

/** Positive if the first template is more specific: where they first differ in kind, it has text and the other a parameter. */
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
    // Middleware is mounted on a wildcard, which is not a path of the API.
    if (!url.endsWith('*')) {
      table.add(url, Array.isArray(method) ? method : [method]);
    }
  });
  return table;
}
