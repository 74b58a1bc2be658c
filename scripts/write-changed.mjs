import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';

/**
 * Writes a generated file unless it is there already: a newer one would make the next command build again. Several commands may write it
 * at the same time.
 * @param {string} path
 * @param {string} text
 */
export function writeChanged(path, text) {
  if (existsSync(path) && readFileSync(path, 'utf8') === text) {
    return;
  }
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, text);
  renameSync(draft, path);
}
