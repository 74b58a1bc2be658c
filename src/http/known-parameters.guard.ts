import {
  type CanActivate,
  type CustomDecorator,
  type ExecutionContext,
  Injectable,
  SetMetadata,
} from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import { invalidField } from '../ledger/index.js';

const QUERY_PARAMETERS = 'holdfast:query-parameters';

/** Declares the query parameters of an operation. */
export function QueryParameters(names: readonly string[]): CustomDecorator {
  return SetMetadata(QUERY_PARAMETERS, names);
}

/** Operations that the protocol does not have. */
const OWN = /^\/(?:ops\/|v1\/usage$)/;

/**
 * Refuses query parameters that an operation of our own does not declare. There a filter that is ignored would export, or change, more
 * than was asked for. Under /v1 the protocol has unknown parameters ignored.
 */
@Injectable()
export class KnownParameters implements CanActivate {
  /** By the handler of an operation; undefined where any parameter may be. */
  private readonly known = new Map<object, readonly string[] | undefined>();

  /** @throws Refusal INVALID_REQUEST that names the first unknown parameter and those that are known. */
  canActivate(context: ExecutionContext): true {
    const handler = context.getHandler();
    const request = context.switchToHttp().getRequest<FastifyRequest>();
    if (!this.known.has(handler)) {
      const names = (Reflect.getMetadata(QUERY_PARAMETERS, handler) ?? []) as readonly string[];
      this.known.set(handler, OWN.test(request.routeOptions.url ?? '') ? names : undefined);
    }
    const known = this.known.get(handler);
    if (known === undefined) {
      return true;
    }
    const unknown = Object.keys(request.query as object).find((name) => !known.includes(name));
    if (unknown !== undefined) {
      const allowed = known.length === 0 ? 'there are none here' : `allowed: ${known.join(', ')}`;
      throw invalidField(
        unknown.slice(0, 64),
        `${JSON.stringify(unknown.slice(0, 64))} is not a parameter of this operation; ${allowed}`,
      );
    }
    return true;
  }
}
