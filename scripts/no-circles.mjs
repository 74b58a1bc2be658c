// A rule of ESLint: no file of src imports one that leads back to it, be it for a type. Whoever reads the one would have to know the other.
import { readFileSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

/** Of each file as it was when it was read: an editor asks again after a change. @type {Map<string, { mtimeMs: number, files: string[] }>} */
const imported = new Map();

const IMPORT = /\bfrom '(\.[^']+)'|\bimport\(\s*'(\.[^']+)'|\bimport '(\.[^']+)'/g;

/** @param {string} file @param {string} source */
const target = (file, source) => resolve(dirname(file), source.replace(/\.js$/, '.ts'));

/** What a file imports from beside it; nothing if it cannot be read. @param {string} file */
function importsOf(file) {
  try {
    const { mtimeMs } = statSync(file);
    const known = imported.get(file);
    if (known?.mtimeMs === mtimeMs) {
      return known.files;
    }
    const files = [...readFileSync(file, 'utf8').matchAll(IMPORT)].map(([, from, called, alone]) =>
      target(file, from ?? called ?? alone ?? ''),
    );
    imported.set(file, { mtimeMs, files });
    return files;
  } catch {
    // The compiler says so.
    return [];
  }
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
