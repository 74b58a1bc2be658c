import type { Declaration } from './declarations.js';
import { EXTENSION_RULES } from './extension-rules.js';
import { GOVERNANCE_RULES } from './governance-rules.js';
import { OPERATIONS, type Operation } from './operations.js';
import type { Rules } from './rule.js';
import { RUNTIME_RULES } from './runtime-rules.js';
import { UNTOLD_EVENTS } from './untold-events.js';

/** docs/reference/protocol.md with newly written tables between its markers. */
export function withTables(page: string, declarations: readonly Declaration[]): string {
  const tables: Readonly<Record<string, string>> = {
    operations: operationTable(declarations),
    'runtime-rules': ruleTable(RUNTIME_RULES, declarations),
    'governance-rules': ruleTable(GOVERNANCE_RULES, declarations),
    'extension-rules': ruleTable(EXTENSION_RULES, declarations),
    events: table(
      ['Event', 'Why'],
      Object.entries(UNTOLD_EVENTS).map(([type, why]) => [`\`${type}\``, why]),
    ),
  };
  return Object.entries(tables).reduce((text, [name, rows]) => {
    const mark = new RegExp(`(<!-- ${name} -->\n)[^]*?(<!-- /${name} -->)`);
    if (!mark.test(text)) {
      throw new Error(`the page has no part ${name}`);
    }
    return text.replace(mark, (_, from: string, to: string) => `${from}${rows}${to}`);
  }, page);
}

function operationTable(declarations: readonly Declaration[]): string {
  const rows = Object.entries<Operation>(OPERATIONS).map(([id, { method, path, note, whyNot }]) => {
    const files = new Set(declarations.filter(({ shown }) => shown === id).map(({ file }) => `\`${file}\``));
    const tests = [...files, ...(note === undefined ? [] : [note])].join(' ');
    return [method, `\`${path}\``, `\`${id}\``, whyNot === undefined ? 'yes' : 'no', whyNot ?? tests];
  });
  return table(['Method', 'Path', 'Operation', 'Served', 'Tests, or why not'], rows);
}

function ruleTable(rules: Rules, declarations: readonly Declaration[]): string {
  const rows = Object.entries(rules).map(([id, { rule, place, note, open }]) => {
    const words = [
      ...(open === undefined ? [] : [`**Open**: ${open}`]),
      ...(note === undefined ? [] : [note]),
    ];
    const shown = references(declarations.filter((declaration) => declaration.shown === id));
    return [rule, place, [...words, shown].join(' ')];
  });
  return table(['Rule', 'Where it stands', 'Shown by'], rows);
}

/** `http/reserve` “one test”; “another” `lua/reserve` “a third” */
function references(declarations: readonly Declaration[]): string {
  const titles = new Map<string, string[]>();
  for (const { file, title } of declarations) {
    titles.set(file, [...(titles.get(file) ?? []), `“${title}”`]);
  }
  return [...titles].map(([file, quoted]) => `\`${file}\` ${quoted.join('; ')}`).join(' ');
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, head.map(() => '---'), ...rows].map(
    (cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`,
  );
  return lines.join('');
}
