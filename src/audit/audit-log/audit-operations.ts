import { Injectable, type OnModuleInit, RequestMethod } from '@nestjs/common';
import { METHOD_METADATA, PATH_METADATA } from '@nestjs/common/constants.js';
import { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { type AccessRule, accessRuleOf } from '../../http/index.js';

/** What the audit log needs to know about an operation. */
export interface AuditedOperation {
  /** The operationId, from the protocol or our own. */
  readonly id: string;
  readonly access: AccessRule;
  readonly resourceType: string | undefined;
}

/** The metadata key of the `@ApiOperation` in `@Operation`, which its package does not export. */
const API_OPERATION = 'swagger/apiOperation';

/** Resource types by path. The protocol defines some of them; the others cover what it does not name. */
const RESOURCE_TYPES: readonly (readonly [RegExp, string])[] = [
  [/^\/v1\/admin\/tenants/, 'tenant'],
  [/^\/v1\/admin\/budgets|^\/ops\/budgets/, 'budget'],
  [/^\/v1\/admin\/api-keys|^\/v1\/auth/, 'api_key'],
  [/^\/v1\/admin\/policies/, 'policy'],
  [/^\/ops\/test-clock/, 'test_clock'],
  [/^\/ops\/operators/, 'operator'],
  [/^\/v1\/admin\/action-quota-counters/, 'action_quota_counter'],
  [/^\/v1\/(admin\/)?webhooks/, 'webhook'],
  [/^\/v1\/admin\/config/, 'config'],
  [/^\/v1\/admin\/audit/, 'audit'],
  [/^\/v1\/(admin\/)?events/, 'event'],
  [/^\/v1\/reservations|^\/ops\/(reservations|quarantine)/, 'reservation'],
];

export function resourceTypeOf(path: string): string | undefined {
  return RESOURCE_TYPES.find(([pattern]) => pattern.test(path))?.[1];
}

/** All operations by method and route, from the controllers' decorators. */
@Injectable()
export class AuditOperations implements OnModuleInit {
  private readonly byRoute = new Map<string, AuditedOperation>();

  constructor(
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
  ) {}

  onModuleInit(): void {
    for (const { instance, metatype } of this.discovery.getControllers()) {
      if (instance === undefined || metatype === null) {
        continue;
      }
      const prefixes = [Reflect.getMetadata(PATH_METADATA, metatype) as string | string[]].flat();
      const prototype = Object.getPrototypeOf(instance) as Record<string, object>;
      for (const name of this.scanner.getAllMethodNames(prototype)) {
        this.add(prefixes, prototype[name] as object);
      }
    }
  }

  /** @param route with parameters as `:name`. */
  find(method: string, route: string): AuditedOperation | undefined {
    return (
      this.byRoute.get(`${method} ${route}`) ??
      (method === 'HEAD' ? this.byRoute.get(`GET ${route}`) : undefined)
    );
  }

  private add(prefixes: readonly string[], handler: object): void {
    const access = accessRuleOf(handler);
    const paths = Reflect.getMetadata(PATH_METADATA, handler) as string | string[] | undefined;
    if (access === undefined || paths === undefined) {
      return;
    }
    const method = RequestMethod[Reflect.getMetadata(METHOD_METADATA, handler) as RequestMethod];
    const described = Reflect.getMetadata(API_OPERATION, handler) as { operationId?: string } | undefined;
    for (const prefix of prefixes) {
      for (const path of [paths].flat()) {
        const route = `/${[prefix, path]
          .map((part) => part.replaceAll(/^\/|\/$/g, ''))
          .filter((part) => part !== '')
          .join('/')}`;
        this.byRoute.set(`${method} ${route}`, {
          id: described?.operationId ?? `${method}:${route}`,
          access,
          resourceType: resourceTypeOf(route),
        });
      }
    }
  }
}
