// node shard.mjs <count>: prints a value for jest's --shard, such as `2/3`. It is derived from the contents of the tested files, so the
// same state always gets the same shard, committed or not.
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, statSync } from 'node:fs';
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

/**
 * @param {string} root
 * @param {string} name of a file or a folder in it, or of nothing
 * @returns {string[]}
 */
function filesOf(root, name) {
  const found = statSync(join(root, name), { throwIfNoEntry: false });
  if (found === undefined || !found.isDirectory()) {
    return found === undefined ? [] : [name];
  }
  const inside = readdirSync(join(root, name)).sort();
  return inside.flatMap((entry) => filesOf(root, `${name}/${entry}`));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.stdout.write(`${shardOf(Number(process.argv[2]))}\n`);
}
