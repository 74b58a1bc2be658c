import { readFileSync, readdirSync } from 'node:fs';
import { sep } from 'node:path';
import { importsOf } from './header.js';

const LUA_DIRECTORY = new URL('../../lua/', import.meta.url);

/** Contains the parts that scripts include. Every other folder of `lua` is a capability, with a script for each operation. */
const LIBRARY = 'lib';

export function readLua(path: string, directory = LUA_DIRECTORY): string {
  return readFileSync(new URL(path, directory), 'utf8');
}

/**
 * The parts that a text includes, by name, each after its own includes.
 * @param known texts of parts. Callers that assemble many scripts pass the same map, so that each part is read once.
 * @throws Error if a part does not exist or includes itself.
 */
export function partsOf(
  text: string,
  directory = LUA_DIRECTORY,
  known = new Map<string, string>(),
): Map<string, string> {
  const parts = new Map<string, string>();
  const collect = (including: string, path: readonly string[]): void => {
    for (const { part: name } of importsOf(including)) {
      if (path.includes(name)) {
        throw new Error(`lua/${LIBRARY}/${name}.lua includes itself through ${path.join(' -> ')}`);
      }
      if (!parts.has(name)) {
        const part = known.get(name) ?? readLua(`${LIBRARY}/${name}.lua`, directory);
        known.set(name, part);
        collect(part, [...path, name]);
        parts.set(name, part);
      }
    }
  };
  collect(text, []);
  return parts;
}

/** The names that these texts use from each part, without duplicates. */
export function usedNames(texts: Iterable<string>): Map<string, string[]> {
  const used = new Map<string, Set<string>>();
  for (const { part, names } of [...texts].flatMap(importsOf)) {
    used.set(part, new Set([...(used.get(part) ?? []), ...names]));
  }
  return new Map([...used].map(([part, names]) => [part, [...names].sort()]));
}

/**
 * The path of every script by name, relative to the directory.
 * @throws Error if two folders contain a script of the same name.
 */
export function scriptPaths(directory = LUA_DIRECTORY): Map<string, string> {
  const paths = new Map<string, string>();
  for (const path of readdirSync(directory, { recursive: true, encoding: 'utf8' }).sort()) {
    const [folder, file] = path.split(sep);
    if (folder === LIBRARY || file === undefined || !file.endsWith('.lua')) {
      continue;
    }
    const name = file.slice(0, -'.lua'.length);
    const other = paths.get(name);
    if (other !== undefined) {
      throw new Error(`lua/${other} and lua/${folder}/${file} are scripts of one name`);
    }
    paths.set(name, `${folder}/${file}`);
  }
  return paths;
}
