import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export interface DocBlock {
  readonly file: string;
  /** Of the code's first line. */
  readonly line: number;
  /** The headings above it, the nearest last. */
  readonly headings: readonly string[];
  readonly code: string;
}

/** The blocks of shell commands of a document in their order, or those below one of its headings. */
export function docBlocks(file: string, below?: string): DocBlock[] {
  const blocks: DocBlock[] = [];
  let headings: { level: number; title: string }[] = [];
  let [fence, code, line]: [string | undefined, string[], number] = [undefined, [], 0];
  for (const [index, text] of readFileSync(join(ROOT, file), 'utf8').split('\n').entries()) {
    if (fence === undefined) {
      const [, marks = '', title = ''] = /^(#+) (.*)$/.exec(text) ?? [];
      if (marks !== '') {
        headings = [...headings.filter(({ level }) => level < marks.length), { level: marks.length, title }];
      }
      fence = /^```(.*)$/.exec(text)?.[1];
      [code, line] = [[], index + 2];
    } else if (text === '```') {
      if (fence === 'sh') {
        blocks.push({ file, line, headings: headings.map(({ title }) => title), code: code.join('\n') });
      }
      fence = undefined;
    } else {
      code.push(text);
    }
  }
  return below === undefined ? blocks : blocks.filter(({ headings: above }) => above.includes(below));
}
