import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse, parseAllDocuments, stringify } from 'yaml';

/** A Kubernetes manifest. */
/* eslint-disable-next-line @typescript-eslint/no-explicit-any -- its shape is what the tests are about */
export type Manifest = any;

type Value = unknown;
type Values = Readonly<Record<string, Value>>;

/** Plain text or an action, as in Go templates. */
type Piece = { readonly text: string } | { readonly action: string };

interface Scope {
  readonly dot: Value;
  readonly root: Values;
  readonly variables: Values;
}

const RELEASE = { Name: 'ledger', Namespace: 'payments', Service: 'Helm' };

export const hasHelm = spawnSync('helm', ['version', '--short']).status === 0;

/** The manifests that `helm template` writes, by kind. Throws its output if it fails. */
export function renderWithHelm(folder: string, values: Values): Record<string, Manifest> {
  const work = mkdtempSync(join(tmpdir(), 'helm-'));
  try {
    const file = join(work, 'values.yaml');
    writeFileSync(file, stringify(values));
    const cluster = ['--namespace', RELEASE.Namespace, '--kube-version', '1.30.0'];
    const args = ['template', RELEASE.Name, folder, ...cluster, '--values', file];
    const { status, stdout, stderr } = spawnSync('helm', args, { encoding: 'utf8' });
    if (status !== 0) {
      throw new Error(stderr);
    }
    return byKind(stdout);
  } finally {
    rmSync(work, { recursive: true });
  }
}

/**
 * Renders a chart without Helm. Supports only the parts of Go templates that the chart uses, and throws at
 * anything else.
 * @param values override those of values.yaml
 */
export function render(folder: string, values: Values): Record<string, Manifest> {
  const read = (file: string): string => readFileSync(join(folder, file), 'utf8');
  const chart = parse(read('Chart.yaml')) as { appVersion: string };
  const root = {
    Values: merged(parse(read('values.yaml')) as Values, values),
    Release: RELEASE,
    Chart: { AppVersion: chart.appVersion },
  };
  const files = readdirSync(join(folder, 'templates')).sort();
  const templates = new Template(root);
  files
    .filter((file) => file.endsWith('.tpl'))
    .forEach((file) => templates.render(read(`templates/${file}`)));
  templates.render(read('templates/NOTES.txt'));
  const documents = files
    .filter((file) => file.endsWith('.yaml'))
    .map((file) => templates.render(read(`templates/${file}`)));
  return byKind(documents.join('\n---\n'));
}

export function merged(base: Values, over: Values): Values {
  const isMap = (value: Value): value is Values =>
    typeof value === 'object' && value !== null && !Array.isArray(value);
  const entries = Object.entries(over).map(([key, value]) => {
    const below = base[key];
    return [key, isMap(below) && isMap(value) ? merged(below, value) : value];
  });
  return { ...base, ...Object.fromEntries(entries) };
}

function byKind(text: string): Record<string, Manifest> {
  const manifests = parseAllDocuments(text).map((document) => {
    if (document.errors.length > 0) {
      throw document.errors[0] as Error;
    }
    return document.toJS();
  });
  return Object.fromEntries(manifests.filter(Boolean).map((manifest) => [manifest.kind, manifest]));
}

class Template {
  private readonly defined = new Map<string, Piece[]>();

  constructor(private readonly root: Values) {}

  render(text: string): string {
    const scope = { dot: this.root, root: this.root, variables: {} };
    return this.write(piecesOf(text), scope);
  }

  private write(pieces: readonly Piece[], scope: Scope): string {
    let written = '';
    const rest = [...pieces];
    for (let piece = rest.shift(); piece !== undefined; piece = rest.shift()) {
      if ('text' in piece) {
        written += piece.text;
        continue;
      }
      const [word = '', ...more] = piece.action.split(' ');
      if (['if', 'with', 'range', 'define'].includes(word)) {
        written += this.block(word, more.join(' '), branchesOf(rest), scope);
      } else {
        const value = this.pipeline(piece.action, scope);
        written += value === undefined ? '' : plain(value);
      }
    }
    return written;
  }

  private block(word: string, head: string, branches: Branch[], scope: Scope): string {
    const [body] = branches as [Branch];
    switch (word) {
      case 'define':
        this.defined.set(JSON.parse(head) as string, body.pieces);
        return '';
      case 'with': {
        const dot = this.pipeline(head, scope);
        return isTrue(dot) ? this.write(body.pieces, { ...scope, dot }) : '';
      }
      case 'range': {
        const [, key = '', value = '', list = ''] = /^(\$\w+), (\$\w+) := (.+)$/.exec(head) ?? [];
        const entries = Object.entries(this.pipeline(list, scope) as Values).sort();
        return entries
          .map(([name, entry]) =>
            this.write(body.pieces, {
              ...scope,
              variables: { ...scope.variables, [key]: name, [value]: entry },
            }),
          )
          .join('');
      }
      default: {
        const all = [{ ...body, condition: head }, ...branches.slice(1)];
        const taken = all.find(
          ({ condition }) => condition === '' || isTrue(this.pipeline(condition, scope)),
        );
        return taken === undefined ? '' : this.write(taken.pieces, scope);
      }
    }
  }

  private pipeline(text: string, scope: Scope): Value {
    return text
      .split(' | ')
      .reduce<Value>(
        (piped, call, at) => this.call(tokensOf(call), scope, at === 0 ? [] : [piped]),
        undefined,
      );
  }

  private call([first = '', ...more]: string[], scope: Scope, piped: Value[]): Value {
    if (first === 'include') {
      const pieces = this.defined.get(JSON.parse(more[0] ?? '') as string);
      return this.write(pieces ?? fail(`no template ${more[0]}`), scope).trimEnd();
    }
    const args = [...more.map((token) => this.operand(token, scope)), ...piped];
    const named = FUNCTIONS[first];
    return named === undefined ? this.operand(first, scope) : named(...args);
  }

  private operand(token: string, { dot, variables }: Scope): Value {
    if (token.startsWith('(')) {
      return this.pipeline(token.slice(1, -1), { dot, root: this.root, variables });
    }
    if (/^"|^\d+$/.test(token)) {
      return JSON.parse(token) as Value;
    }
    if (token.startsWith('$')) {
      return variables[token] ?? fail(`no variable ${token}`);
    }
    if (!token.startsWith('.')) {
      return fail(`unknown: ${token}`);
    }
    return token
      .split('.')
      .filter((name) => name !== '')
      .reduce<Value>((value, name) => (value as Values | undefined)?.[name], dot);
  }
}

const FUNCTIONS: Readonly<Record<string, (...args: Value[]) => Value>> = {
  add: (...terms) => terms.reduce<number>((sum, term) => sum + Number(term), 0),
  default: (fallback, value) => (isTrue(value) ? value : fallback),
  int64: (value) => Math.trunc(Number(value)),
  nindent: (spaces, text) => `\n${plain(text).replaceAll(/^/gm, ' '.repeat(Number(spaces)))}`,
  not: (value) => !isTrue(value),
  or: (...values) => values.find(isTrue) ?? values.at(-1),
  quote: (value) => JSON.stringify(plain(value ?? '')),
  required: (message, value) => (isTrue(value) ? value : fail(plain(message))),
  toYaml: (value) => stringify(value).trimEnd(),
};

function plain(value: Value): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function fail(problem: string): never {
  throw new Error(problem);
}

/** Truth as in Go templates: empty values are false. */
function isTrue(value: Value): boolean {
  return typeof value === 'object' && value !== null ? Object.keys(value).length > 0 : Boolean(value);
}

/** Trim markers remove the whitespace next to an action. */
function piecesOf(text: string): Piece[] {
  const trimmed = text.replaceAll(/\s*\{\{-/g, '{{').replaceAll(/-\}\}\s*/g, '}}');
  return trimmed
    .split(/(\{\{.*?\}\})/)
    .map((part) => (part.startsWith('{{') ? { action: part.slice(2, -2).trim() } : { text: part }));
}

interface Branch {
  readonly condition: string;
  readonly pieces: Piece[];
}

/** Removes everything up to the `end` of a block from the pieces. */
function branchesOf(rest: Piece[]): Branch[] {
  const branches: Branch[] = [{ condition: '', pieces: [] }];
  for (let depth = 0; ;) {
    const piece = rest.shift() ?? fail('a block has no end');
    const action = 'action' in piece ? piece.action : '';
    if (action === 'end' && depth === 0) {
      return branches;
    }
    if (action.startsWith('else') && depth === 0) {
      branches.push({ condition: action.replace(/^else( if )?/, ''), pieces: [] });
      continue;
    }
    depth += action === 'end' ? -1 : /^(if|with|range|define) /.test(action) ? 1 : 0;
    branches.at(-1)?.pieces.push(piece);
  }
}

/** Words, strings and parentheses. */
function tokensOf(call: string): string[] {
  return call.match(/"[^"]*"|\([^)]*\)|\S+/g) ?? [];
}
