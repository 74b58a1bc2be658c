import ts from 'typescript';

/** A test's declaration that it shows a rule or an operation. */
export interface Declaration {
  readonly shown: string;
  /** Path below test/, without `.test.ts`. */
  readonly file: string;
  /**
   * As written in the file. The title of a table's test has placeholders and follows the title of its group.
   */
  readonly title: string;
}

/**
 * Functions that define a test or a group of tests. `withSpec` is either of them; it skips with a reason if
 * there are no documents.
 */
const TESTS = ['test', 'withSpec'];
const GROUPS = ['describe', 'withSpec'];

/**
 * The calls of `shows` in a test file, in order.
 * @throws if one is not the first statement in the function of a test that runs
 */
export function declarationsIn(file: string, text: string): Declaration[] {
  const source = ts.createSourceFile(`${file}.test.ts`, text, ts.ScriptTarget.Latest, true);
  const found: Declaration[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && ts.isIdentifier(node.expression) && node.expression.text === 'shows') {
      try {
        const title = titleOfTestAround(node);
        found.push(...node.arguments.map((shown) => ({ shown: literal(shown), file, title })));
      } catch (error) {
        const { line } = source.getLineAndCharacterOfPosition(node.getStart());
        throw new Error(`${file}.test.ts:${line + 1}: ${(error as Error).message}`);
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

function titleOfTestAround(call: ts.CallExpression): string {
  const statement = call.parent;
  const block = statement.parent;
  if (!ts.isExpressionStatement(statement) || !ts.isBlock(block) || block.statements[0] !== statement) {
    throw new Error('shows() must be the first statement of a test');
  }
  const test = callThatTakes(block.parent);
  if (test === undefined || !isCallOf(TESTS, test)) {
    throw new Error('shows() must stand in the function that is given to test()');
  }
  const title = literal(test.arguments[0]);
  let group: string | undefined;
  for (let node: ts.Node = test; !ts.isSourceFile(node); node = node.parent) {
    const around = callThatTakes(node);
    if (around !== undefined && around !== test) {
      if (!isCallOf(GROUPS, around)) {
        throw new Error(`a test inside ${around.expression.getText()} may not run`);
      }
      group ??= literal(around.arguments[0]);
    }
  }
  return title.includes('%') && group !== undefined ? `${group} › ${title}` : title;
}

/** The call that has this function as an argument. */
function callThatTakes(node: ts.Node): ts.CallExpression | undefined {
  const isFunction = ts.isArrowFunction(node) || ts.isFunctionExpression(node);
  return isFunction && ts.isCallExpression(node.parent) ? node.parent : undefined;
}

/** `test(...)` or `test.each(...)(...)`, but not `test.skip` and the like. */
function isCallOf(names: readonly string[], { expression }: ts.CallExpression): boolean {
  if (ts.isCallExpression(expression)) {
    const { expression: each } = expression;
    return (
      ts.isPropertyAccessExpression(each) && each.name.text === 'each' && isOneOf(names, each.expression)
    );
  }
  return isOneOf(names, expression);
}

function isOneOf(names: readonly string[], node: ts.Node): boolean {
  return ts.isIdentifier(node) && names.includes(node.text);
}

/** A string as written; of a template, only the part before its first expression. */
function literal(node: ts.Node | undefined): string {
  if (node !== undefined && ts.isStringLiteralLike(node)) {
    return node.text;
  }
  if (node !== undefined && ts.isTemplateExpression(node)) {
    return node.head.text;
  }
  throw new Error('a literal is expected, not an expression');
}
