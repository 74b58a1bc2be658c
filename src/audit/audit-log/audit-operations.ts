import { Injectable, type OnModuleInit, RequestMethod } from '@nestjs/common';
import { METHOD_METADATA, PATH_METADATA } from '@nestjs/common/constants.js';
import { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { type AccessRule, accessRuleOf } from '../../http/index.js';

/** What the audit log says of an operation. */
export interface AuditedOperation {
  /** The operationId of the protocol's documents, or one of our own. */
  readonly id: string;
  readonly access: AccessRule;
  readonly resourceType: string | undefined;
}

/** Where `@ApiOperation` keeps what it is given; its package does not export the name. */
const API_OPERATION = 'swagger/apiOperation';

/** By the path's first part behind the plane. Names beside the documents' own are for what has none there. */
const RESOURCE_TYPES: readonly (readonly [RegExp, string])[] = [
  [/^\/v1\/admin\/tenants/, 'tenant'],
  [/^\/v1\/admin\/budgets/, 'budget'],
  [/^\/v1\/admin\/api-keys|^\/v1\/auth/, 'api_key'],
  [/^\/v1\/admin\/policies/, 'policy'],
  [/^\/v1\/(admin\/)?webhooks/, 'webhook'],
  [/^\/v1\/admin\/config/, 'config'],
  [/^\/v1\/admin\/audit/, 'audit'],
  [/^\/v1\/(admin\/)?events/, 'event'],
  [/^\/v1\/reservations|^\/ops\/(reservations|quarantine)/, 'reservation'],
];

export function resourceTypeOf(path: string): string | undefined {
  return RESOURCE_TYPES.find(([pattern]) => pattern.test(path))?.[1];
}

/** The operations by method and route, as the controllers declare them. */
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

export interface QuotaLimits {
  /** Rows of one source that a window lets through. */
  readonly perSource: number;
  /** Rows of all sources together. */
  readonly overall: number;
}

/** What one source sent beyond the limits of a window. */
export interface Excess {
  /** Undefined for all the sources that have no entry of their own. */
  readonly source: string | undefined;
  readonly count: number;
}

/** Sources that one window tells apart; what others send is counted together, so that a flood from everywhere costs no more memory. */
const MAX_SOURCES = 1000;
/** Entries of their own in what a window tells at its end; the other sources share one. */
const MAX_TOLD = 10;

/** Lets so many rows of each source and of all through in a window, and counts the others. */
export class AuditQuota {
  private readonly used = new Map<string, number>();
  private readonly excess = new Map<string, number>();
  private total = 0;
  private others = 0;

  constructor(private readonly limits: QuotaLimits) {}

  /** Counts a row, and tells whether it may be written. */
  admit(source: string): boolean {
    const used = this.used.get(source) ?? 0;
    const isKnown = used > 0 || this.used.size < MAX_SOURCES;
    if (this.total < this.limits.overall && isKnown && used < this.limits.perSource) {
      this.total += 1;
      this.used.set(source, used + 1);
      return true;
    }
    if (this.excess.has(source) || this.excess.size < MAX_SOURCES) {
      this.excess.set(source, (this.excess.get(source) ?? 0) + 1);
    } else {
      this.others += 1;
    }
    return false;
  }

  /** Ends the window and tells what was not let through: the sources with the most each, and the others together. */
  endWindow(): Excess[] {
    const ranked = [...this.excess].sort(([, one], [, other]) => other - one);
    const told: Excess[] = ranked.slice(0, MAX_TOLD).map(([source, count]) => ({ source, count }));
    const rest = ranked.slice(MAX_TOLD).reduce((sum, [, count]) => sum + count, this.others);
    this.used.clear();
    this.excess.clear();
    this.total = 0;
    this.others = 0;
    return rest === 0 ? told : [...told, { source: undefined, count: rest }];
  }
}
