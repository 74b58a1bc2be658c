import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig, sharedPrefixes } from '../../config/index.js';
import { type ActionKind, invalidField, kindOf, type KindTraits, UNREGISTERED } from '../../ledger/index.js';
import { LOGGER, type Logger, MetricsRegistry } from '../../telemetry/index.js';
import { GOVERNANCE_METRICS } from '../governance.metrics.js';

/** The most kinds that an instance logs, because clients can send any number. The metric counts all of them. */
const MOST_LOGGED = 1000;

/** The kinds of actions that this deployment knows: the registry's, and those that it declares in CUSTOM_ACTION_KINDS. */
@Injectable()
export class KnownKinds {
  /** As the deployment declares them, less the prefixes that belong to the registry. */
  readonly declared: readonly ActionKind[];
  private readonly byName: ReadonlyMap<string, ActionKind>;
  private readonly counts = this.metrics.of(GOVERNANCE_METRICS);
  private readonly logged = new Set<string>();

  constructor(
    @Inject(CONFIG) { customActionKinds }: HoldfastConfig,
    private readonly metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    const shared = sharedPrefixes(customActionKinds);
    for (const one of shared) {
      logger.warn(
        one,
        'a prefix of MCP tools in CUSTOM_ACTION_KINDS belongs to a kind of the registry, which keeps it',
      );
    }
    this.declared = customActionKinds.map((kind) => withoutShared(kind, shared));
    this.byName = new Map(this.declared.map((kind) => [kind.kind, kind]));
  }

  /** What policies need to know of the kind of a request; nothing if the kind would have to be declared. Counts and logs unknown kinds. */
  traitsOf(kind: string): KindTraits | undefined {
    const traits = kindOf(kind, this.byName);
    if (traits === undefined || traits === UNREGISTERED) {
      const outcome = traits === undefined ? 'refused' : 'side_effect';
      this.counts.unregisteredKinds.inc({ outcome });
      this.log(kind, outcome);
    }
    return traits;
  }

  /** @throws Refusal INVALID_REQUEST if a rule names a custom kind that is not declared. */
  requireDeclared(kinds: readonly string[], field: string): void {
    const unknown = kinds.find((kind) => kindOf(kind, this.byName) === undefined);
    if (unknown !== undefined) {
      throw invalidField(field, `${field} names ${unknown}, which is not a registered action kind`);
    }
  }

  private log(kind: string, outcome: string): void {
    if (this.logged.size < MOST_LOGGED && !this.logged.has(kind)) {
      this.logged.add(kind);
      this.logger.info(
        { kind, outcome },
        'a request has an action kind that is neither in the registry nor declared',
      );
    }
  }
}

function withoutShared(kind: ActionKind, shared: ReturnType<typeof sharedPrefixes>): ActionKind {
  const taken = new Set(shared.filter((one) => one.kind === kind.kind).map(({ prefix }) => prefix));
  return taken.size === 0
    ? kind
    : { ...kind, mcp_tool_prefixes: kind.mcp_tool_prefixes?.filter((prefix) => !taken.has(prefix)) ?? [] };
}
