// Each command imports this before it does anything: with --help, it prints how the command is used, which the first lines of its file
// say, and ends it.
import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

const [, file = '', ...words] = process.argv;
const isCommand = /^(?:scripts|bench|examples)[\\/].*\.mjs$/.test(
  relative(join(import.meta.dirname, '..'), file),
);
if (isCommand && words.includes('--help')) {
  const lines = readFileSync(file, 'utf8').split('\n');
  const usage = lines.slice(
    0,
    lines.findIndex((line) => !line.startsWith('//')),
  );
  process.stdout.write(`${usage.map((line) => line.slice('// '.length)).join('\n')}\n`);
  process.exit();
}
