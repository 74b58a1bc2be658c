// node shard.mjs <count>: which of so many parts of the tests this state of the files is tried with, as jest's --shard takes it. It
// follows from the contents of what is tested, with or without git, committed or not.
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const TESTED = ['lua', 'package-lock.json', 'scripts', 'src', 'test'];

/**
 * @param {number} count
 * @param {string} root the folder that holds what is tested
 * @returns {string} such as `2/3`
 */
export function shardOf(count, root = ROOT) {
  const hash = createHash('sha256');
  for (const file of TESTED.flatMap((name) => filesOf(root, name))) {
    hash
      .update(`${file}\0`)
      .update(readFileSync(join(root, file)))
      .update('\0');
  }
  return `${(hash.digest().readUInt32BE() % count) + 1}/${count}`;
}

function filesOf(root, name) {
  let inside;
  try {
    inside = readdirSync(join(root, name));
  } catch (error) {
    if (error.code === 'ENOTDIR') {
      return [name];
    }
    if (error.code === 'ENOENT') {
      return [];
    }
    throw error;
  }
  return inside.sort().flatMap((entry) => filesOf(root, `${name}/${entry}`));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.stdout.write(`${shardOf(Number(process.argv[2]))}\n`);
}
