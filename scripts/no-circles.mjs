// A rule of ESLint: no file of src imports one that leads back to it, be it for a type. Whoever reads the one would have to know the other.
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

/** @type {Map<string, string[]>} */
const imported = new Map();

/** @param {string} file @param {string} source */
const target = (file, source) => resolve(dirname(file), source.replace(/\.js$/, '.ts'));

/** What a file imports from beside it; nothing if it cannot be read. @param {string} file */
function importsOf(file) {
  let found = imported.get(file);
  if (found === undefined) {
    let text = '';
    try {
      text = readFileSync(file, 'utf8');
    } catch {
      // The compiler says so.
    }
    found = [...text.matchAll(/\bfrom '(\.[^']+)'|\bimport\(?'(\.[^']+)'/g)].map(([, from, bare]) =>
      target(file, from ?? bare ?? ''),
    );
    imported.set(file, found);
  }
  return found;
}

/** @param {string} from @param {string} to */
function leadsTo(from, to) {
  const seen = new Set([from]);
  for (const file of seen) {
    if (file === to) {
      return true;
    }
    importsOf(file).forEach((next) => seen.add(next));
  }
  return false;
}

/** @type {import('eslint').Rule.RuleModule} */
export const noCircles = {
  meta: { type: 'problem', schema: [], messages: { circle: '{{source}} leads back to this file.' } },
  create(context) {
    const { filename } = context;
    /** @param {{ source?: { value?: unknown } | null | undefined } & import('eslint').Rule.Node} node */
    const check = (node) => {
      const source = node.source?.value;
      if (
        typeof source === 'string' &&
        source.startsWith('.') &&
        leadsTo(target(filename, source), filename)
      ) {
        context.report({ node, messageId: 'circle', data: { source } });
      }
    };
    return {
      ImportDeclaration: check,
      ExportNamedDeclaration: check,
      ExportAllDeclaration: check,
      ImportExpression: check,
    };
  },
};
