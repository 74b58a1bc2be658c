/**
 * The metrics and labels that a PromQL expression refers to. Understands only as much of the language as the
 * alert rules use.
 */
export interface Asked {
  readonly selectors: readonly Selector[];
  /** The labels that aggregations keep and that joins match on. */
  readonly groupings: readonly string[];
}

export interface Selector {
  readonly name: string;
  readonly matchers: readonly { readonly label: string; readonly operator: string; readonly value: string }[];
}

const GROUPING = /\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)/g;
const MATCHER = /(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"/g;
const RANGE_OR_OFFSET = /\[[^\]]*\]|\boffset\s+\w+/g;
const OPERATORS = new Set(['and', 'or', 'unless', 'bool']);

export function askedOf(expression: string): Asked {
  const groupings = [...expression.matchAll(GROUPING)].flatMap(([, labels = '']) =>
    labels
      .split(',')
      .map((label) => label.trim())
      .filter((label) => label !== ''),
  );
  const rest = expression.replace(GROUPING, ' ').replace(RANGE_OR_OFFSET, ' ');
  // A name is a metric unless it is an operator or the name of a function that is called.
  const found = rest.matchAll(/(?<![\w:.])([a-zA-Z_:][\w:]*)\s*(\{[^}]*\}|\()?/g);
  const selectors = [...found]
    .filter(([, name = '', after]) => after !== '(' && !OPERATORS.has(name))
    .map(([, name = '', after = '']) => ({
      name,
      matchers: [...after.matchAll(MATCHER)].map(([, label = '', operator = '', value = '']) => ({
        label,
        operator,
        value,
      })),
    }));
  return { selectors, groupings };
}
