// What a browser has to fetch before the console's first page shows: index.html, what it names, what those import at once, and the font.
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

export const MAX_FIRST_LOAD_BYTES = 300 * 1024;

/**
 * @param {string} folder the built console
 * @returns {number} bytes as they are sent
 */
export function firstLoadOf(folder) {
  const assets = join(folder, 'assets');
  const html = readFileSync(join(folder, 'index.html'), 'utf8');
  const names = new Set([...html.matchAll(/assets\/([\w.-]+)/g)].map(([, name]) => String(name)));
  for (const name of names) {
    if (name.endsWith('.js')) {
      const text = readFileSync(join(assets, name), 'utf8');
      for (const [, imported] of text.matchAll(/(?:import|from)\s*["']\.\/([\w.-]+)["']/g)) {
        names.add(String(imported));
      }
    }
  }
  // The style sheet names the font, which every page shows.
  readdirSync(assets)
    .filter((name) => name.endsWith('.woff2'))
    .forEach((name) => names.add(name));
  const sizes = [...names].map((name) => {
    const file = join(assets, name);
    return statSync(existsSync(`${file}.br`) ? `${file}.br` : file).size;
  });
  return Buffer.byteLength(html) + sizes.reduce((sum, size) => sum + size, 0);
}
