import 'reflect-metadata';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { afterEach, expect, jest, test } from '@jest/globals';
import ts from 'typescript';
import { ExpectedSecret } from '../../src/config/secrets.js';

const SOURCES = fileURLToPath(new URL('../../src/', import.meta.url));
const FILES = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }).filter((file) =>
  file.endsWith('.ts'),
);

/** Names of secret values. The second pattern matches names of values that reveal nothing of a secret. */
const SECRET = /secret|password|(admin|api)_?key$|signature|credential|presented|bearer/i;
const NO_SECRET = /hash|code|id$|tag/i;
/** Methods that stop at the first difference. */
const COMPARING = ['includes', 'indexOf', 'startsWith', 'endsWith', 'localeCompare', 'equals', 'compare'];

/** The comparisons in a source whose duration would reveal how much of a secret was guessed. */
function leaks(source: string): string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isBinaryExpression(node) && isEquality(node.operatorToken.kind)) {
      const sides = [node.left, node.right];
      if (sides.some(isSecret) && !sides.some(isLiteral)) {
        found.push(node.getText());
      }
    } else if (
      ts.isCallExpression(node) &&
      ts.isPropertyAccessExpression(node.expression) &&
      COMPARING.includes(node.expression.name.text)
    ) {
      const parts = [node.expression.expression, ...node.arguments];
      if (parts.some(isSecret) && !parts.some(isLiteral)) {
        found.push(node.getText());
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile('source.ts', source, ts.ScriptTarget.Latest, true));
  return found;
}

function isEquality(kind: ts.SyntaxKind): boolean {
  return [
    ts.SyntaxKind.EqualsEqualsEqualsToken,
    ts.SyntaxKind.ExclamationEqualsEqualsToken,
    ts.SyntaxKind.EqualsEqualsToken,
    ts.SyntaxKind.ExclamationEqualsToken,
  ].includes(kind);
}

function isSecret(node: ts.Node): boolean {
  const name = ts.isPropertyAccessExpression(node) ? node.name.text : ts.isIdentifier(node) ? node.text : '';
  return SECRET.test(name) && !NO_SECRET.test(name);
}

/** A comparison with a constant only checks whether there is a secret, or its kind. */
function isLiteral(node: ts.Node): boolean {
  return (
    (ts.isIdentifier(node) && /^[A-Z_]+$/.test(node.text)) ||
    ts.isLiteralExpression(node) ||
    node.kind === ts.SyntaxKind.NullKeyword ||
    (ts.isIdentifier(node) && node.text === 'undefined')
  );
}

test('the check finds the comparisons that leak, and only them', () => {
  for (const source of [
    'key === config.adminApiKey',
    'if (presented !== this.secret) {}',
    'known.includes(apiKey)',
    'signature.startsWith(other)',
    'password == x.y',
  ]) {
    expect({ source, found: leaks(source).length }).toEqual({ source, found: 1 });
  }
  for (const source of [
    'secret === undefined',
    "presented !== ''",
    'secret.startsWith(PREFIX)',
    'expected.matches(presented)',
    'secretHash === other',
    'key_id === other.key_id',
  ]) {
    expect({ source, found: leaks(source) }).toEqual({ source, found: [] });
  }
});

test('no source compares a secret in a time that depends on it', () => {
  expect(FILES.length).toBeGreaterThan(100);
  expect(
    FILES.flatMap((file) => leaks(readFileSync(SOURCES + file, 'utf8')).map((leak) => `${file}: ${leak}`)),
  ).toEqual([]);
});

afterEach(() => {
  jest.restoreAllMocks();
  syncBuiltinESMExports();
});

test('one place compares secrets, by digests of equal length', () => {
  expect(FILES.filter((file) => readFileSync(SOURCES + file, 'utf8').includes('timingSafeEqual'))).toEqual([
    'config/secrets.ts',
  ]);
  const compared = jest.spyOn(crypto, 'timingSafeEqual');
  syncBuiltinESMExports();
  const secret = new ExpectedSecret('an-admin-key-0123456789');
  const presented = [
    'an-admin-key-0123456789',
    'an-admin-key-012345678',
    'Xn-admin-key-0123456789',
    '',
    'a',
    'x'.repeat(100_000),
  ];
  expect(presented.map((text) => secret.matches(text))).toEqual([true, false, false, false, false, false]);
  const lengths = compared.mock.calls.map(([one, other]) => [one.byteLength, other.byteLength]);
  expect(lengths).toEqual(presented.map(() => [32, 32]));
});
