import { readFileSync, readdirSync } from 'node:fs';
import { sep } from 'node:path';
import { importsOf } from './header.js';

const LUA_DIRECTORY = new URL('../../lua/', import.meta.url);

/**
 * Folders of this name contain the parts that scripts include: `lua/lib` those of several capabilities, `lua/<capability>/lib` those of one. Every other
 * folder of `lua` is a capability, with a script for each operation.
 */
const LIBRARY = 'lib';

export function readLua(path: string, directory = LUA_DIRECTORY): string {
  return readFileSync(new URL(path, directory), 'utf8');
}

/**
 * The parts that texts include, by name, each after its own includes.
 * @throws Error if a part does not exist or includes itself.
 */
export function partsOf(texts: Iterable<string>, all: ReadonlyMap<string, string>): Map<string, string> {
  const parts = new Map<string, string>();
  const collect = (including: string, path: readonly string[]): void => {
    for (const name of importsOf(including)) {
      if (path.includes(name)) {
        throw new Error(`the part ${name} includes itself through ${path.join(' -> ')}`);
      }
      if (!parts.has(name)) {
        const part = all.get(name);
        if (part === undefined) {
          throw new Error(`there is no part ${name}`);
        }
        collect(part, [...path, name]);
        parts.set(name, part);
      }
    }
  };
  for (const text of texts) {
    collect(text, []);
  }
  return parts;
}

/** The texts of all parts by name. @throws Error if two parts have one name. */
export function allParts(directory = LUA_DIRECTORY): Map<string, string> {
  const paths = pathsByName(directory, true);
  return new Map([...paths].map(([name, path]) => [name, readLua(path, directory)]));
}

/** The path of every script by name, relative to the directory. @throws Error if two scripts have one name. */
export function scriptPaths(directory = LUA_DIRECTORY): Map<string, string> {
  return pathsByName(directory, false);
}

/** The paths of all files, in their order. */
export function luaPaths(directory = LUA_DIRECTORY): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((path) => path.split(sep).join('/'))
    .filter((path) => path.endsWith('.lua'))
    .sort();
}

function pathsByName(directory: URL, areParts: boolean): Map<string, string> {
  const paths = new Map<string, string>();
  for (const path of luaPaths(directory)) {
    const [file = '', folder] = path.split('/').reverse();
    if ((folder === LIBRARY) !== areParts) {
      continue;
    }
    const name = file.slice(0, -'.lua'.length);
    const other = paths.get(name);
    if (other !== undefined) {
      throw new Error(`lua/${other} and lua/${path} have one name`);
    }
    paths.set(name, path);
  }
  return paths;
}
