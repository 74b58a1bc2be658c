import { type ActionKind, BUILT_IN_KINDS, type PolicyKeySpec, RISK_CLASSES } from '../ledger/index.js';
import type { Parse } from './parsers.js';

/** `custom.<org>.<operation>[.<qualifier>]` */
const NAME = /^custom(\.[A-Za-z0-9_-]+){2,}$/;
const NAME_MAX_LENGTH = 64;
const DESCRIPTION_MAX_LENGTH = 512;
const PREFIX_MAX_LENGTH = 128;
const MOST_KINDS = 1000;

const MEMBERS = new Set(['kind', 'risk_class', 'description', 'policy_key_spec', 'mcp_tool_prefixes']);
const IS_KEY: Readonly<Record<string, (value: unknown) => boolean>> = {
  host: isFlag,
  recipient_domain: isFlag,
  resource_type: isText(128),
  path_prefix: isFlag,
} satisfies Record<keyof PolicyKeySpec, unknown>;

function isFlag(value: unknown): boolean {
  return typeof value === 'boolean';
}

function isText(maxLength: number): (value: unknown) => value is string {
  return (value): value is string =>
    typeof value === 'string' && value !== '' && [...value].length <= maxLength;
}

/** A declaration that cannot be used, and why. */
class UnusableKind extends Error {}

/**
 * The deployment's own kinds of actions: DECLARATION CONTRACT of cycles-action-kinds-v0.1.26.
 * A JSON array of `{"kind", "risk_class", "description"?, "policy_key_spec"?, "mcp_tool_prefixes"?}`.
 */
export const customKinds: Parse<readonly ActionKind[]> = (value) => {
  try {
    return { value: parseKinds(value) };
  } catch (error) {
    const problem = error instanceof UnusableKind ? error.message : 'it is not JSON';
    return { allowed: `a JSON array of action kinds such as ${EXAMPLE} (${problem})` };
  }
};

const EXAMPLE = '[{"kind":"custom.acme.invoice.post","risk_class":"external_side_effect"}]';

/** @throws UnusableKind, or SyntaxError for a text that is no JSON. */
function parseKinds(text: string): ActionKind[] {
  const written: unknown = JSON.parse(text);
  if (!Array.isArray(written) || written.length > MOST_KINDS) {
    throw new UnusableKind(`it is not an array of at most ${MOST_KINDS} kinds`);
  }
  const kinds = written.map((declared: unknown, index) => parseKind(declared, `kind ${index + 1}`));
  const names = kinds.map(({ kind }) => kind);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) {
    throw new UnusableKind(`${twice} is declared twice`);
  }
  return kinds;
}

/** @throws UnusableKind */
function parseKind(declared: unknown, place: string): ActionKind {
  if (typeof declared !== 'object' || declared === null) {
    throw new UnusableKind(`${place} is not an object`);
  }
  const {
    kind,
    risk_class: risk,
    description,
    policy_key_spec: keys,
    mcp_tool_prefixes: prefixes,
  } = declared as {
    [Member in keyof ActionKind]: unknown;
  };
  const other = Object.keys(declared).find((member) => !MEMBERS.has(member));
  if (typeof kind !== 'string' || kind.length > NAME_MAX_LENGTH || !NAME.test(kind)) {
    throw new UnusableKind(
      `${place} is not named custom.<org>.<operation>, with at most ${NAME_MAX_LENGTH} letters`,
    );
  } else if (!RISK_CLASSES.some((known) => known === risk)) {
    throw new UnusableKind(`the risk_class of ${kind} is not one of ${RISK_CLASSES.join(', ')}`);
  } else if (description !== undefined && !isText(DESCRIPTION_MAX_LENGTH)(description)) {
    throw new UnusableKind(`the description of ${kind} is not a text of at most ${DESCRIPTION_MAX_LENGTH}`);
  } else if (keys !== undefined && !isKeySpec(keys)) {
    throw new UnusableKind(
      `the policy_key_spec of ${kind} has other members than ${Object.keys(IS_KEY).join(', ')}`,
    );
  } else if (
    prefixes !== undefined &&
    !(Array.isArray(prefixes) && prefixes.every(isText(PREFIX_MAX_LENGTH)))
  ) {
    throw new UnusableKind(`the mcp_tool_prefixes of ${kind} are not texts of at most ${PREFIX_MAX_LENGTH}`);
  } else if (other !== undefined) {
    throw new UnusableKind(`${kind} has an unknown member ${other}`);
  }
  return declared as ActionKind;
}

function isKeySpec(spec: unknown): boolean {
  return (
    typeof spec === 'object' &&
    spec !== null &&
    !Array.isArray(spec) &&
    Object.entries(spec).every(
      ([name, value]) => Object.hasOwn(IS_KEY, name) && IS_KEY[name]?.(value) === true,
    )
  );
}

/** A prefix of MCP tools that a declared kind shares with a kind of the registry. */
export interface SharedPrefix {
  readonly kind: string;
  readonly prefix: string;
  readonly built_in_kind: string;
}

/** The prefixes of declared kinds that a tool's name cannot tell from one of the registry's, which takes precedence. */
export function sharedPrefixes(declared: readonly ActionKind[]): SharedPrefix[] {
  return declared.flatMap(({ kind, mcp_tool_prefixes: prefixes = [] }) =>
    prefixes.flatMap((prefix) => {
      const builtIn = BUILT_IN_KINDS.find((known) =>
        known.mcp_tool_prefixes?.some((taken) => taken.startsWith(prefix) || prefix.startsWith(taken)),
      );
      return builtIn === undefined ? [] : [{ kind, prefix, built_in_kind: builtIn.kind }];
    }),
  );
}
