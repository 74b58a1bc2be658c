import { type ActionKind, BUILT_IN_KINDS, type PolicyKeySpec } from './action-kind-registry.js';

const BY_NAME: ReadonlyMap<string, ActionKind> = new Map(BUILT_IN_KINDS.map((known) => [known.kind, known]));

/** Kinds that begin with this exist only where the deployment declares them. */
const CUSTOM = 'custom.';

/** What policies need to know of a kind. */
export type KindTraits = Pick<ActionKind, 'risk_class' | 'policy_key_spec'>;

/** A kind outside the registry and the custom namespace is a side effect without policy keys. */
export const UNREGISTERED: KindTraits = { risk_class: 'side_effect' };

/** The kind of the registry with exactly this name. */
export function builtInKind(kind: string): ActionKind | undefined {
  return BY_NAME.get(kind);
}

/**
 * What is known of a kind: UNREGISTERED for one outside the registry, nothing for a custom kind that is not among the declared ones.
 * UNREGISTERED KIND HANDLING of cycles-action-kinds-v0.1.26.
 */
export function kindOf(kind: string, declared: ReadonlyMap<string, ActionKind>): KindTraits | undefined {
  return BY_NAME.get(kind) ?? declared.get(kind) ?? (kind.startsWith(CUSTOM) ? undefined : UNREGISTERED);
}

/** Whether the kind's actions can be told apart by this policy key. */
export function hasPolicyKey(
  { policy_key_spec: spec }: Pick<ActionKind, 'policy_key_spec'>,
  name: keyof PolicyKeySpec,
): boolean {
  return (spec?.[name] ?? false) !== false;
}
