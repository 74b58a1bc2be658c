import { type ActionKind, BUILT_IN_KINDS, type PolicyKeySpec } from './action-kind-registry.js';

const BY_NAME: ReadonlyMap<string, ActionKind> = new Map(BUILT_IN_KINDS.map((known) => [known.kind, known]));

/** The kind of the registry with exactly this name. */
export function builtInKind(kind: string): ActionKind | undefined {
  return BY_NAME.get(kind);
}

/** What is known of a kind. One outside the registry is a side effect without policy keys. */
export function kindOf(kind: string): Pick<ActionKind, 'risk_class' | 'policy_key_spec'> {
  return BY_NAME.get(kind) ?? UNREGISTERED;
}

const UNREGISTERED = { risk_class: 'side_effect' } as const;

/** Whether the kind's actions can be told apart by this policy key. */
export function hasPolicyKey(
  { policy_key_spec: spec }: Pick<ActionKind, 'policy_key_spec'>,
  name: keyof PolicyKeySpec,
): boolean {
  return spec?.[name] !== undefined;
}
