// Builds the console into dist/page, compresses its files, and refuses a first load that is too large.
import { brotliCompressSync } from 'node:zlib';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vite';
import { firstLoadOf, MAX_FIRST_LOAD_BYTES } from './first-load.mjs';

const OUT = join(import.meta.dirname, '../dist/page');
/** Smaller files gain nothing. */
const COMPRESSED_FROM_BYTES = 1024;

/** @returns {import('vite').Plugin} */
const compressed = () => ({
  name: 'compressed',
  closeBundle() {
    const assets = join(OUT, 'assets');
    for (const name of readdirSync(assets)) {
      const content = readFileSync(join(assets, name));
      if (/\.(js|css|svg)$/.test(name) && content.byteLength >= COMPRESSED_FROM_BYTES) {
        writeFileSync(join(assets, `${name}.br`), brotliCompressSync(content));
      }
    }
    const bytes = firstLoadOf(OUT);
    process.stdout.write(`The console's first load is ${Math.ceil(bytes / 1024)} KB compressed.\n`);
    if (bytes > MAX_FIRST_LOAD_BYTES) {
      throw new Error(`the console's first load may have ${MAX_FIRST_LOAD_BYTES} bytes and has ${bytes}`);
    }
  },
});

// Also where the environment is that of tests.
process.env.NODE_ENV = 'production';

export default defineConfig({
  root: import.meta.dirname,
  base: '/console/',
  cacheDir: join(import.meta.dirname, '../node_modules/.cache/vite'),
  oxc: { jsx: { runtime: 'automatic' } },
  build: {
    outDir: OUT,
    emptyOutDir: true,
    target: 'es2022',
    // Data URLs would be one more thing for the Content-Security-Policy to allow.
    assetsInlineLimit: 0,
    // The polyfill is an inline script.
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: {
      onLog: (level, log, handle) => {
        // Packages mark what needs a browser; everything here does.
        if (log.code !== 'MODULE_LEVEL_DIRECTIVE') {
          handle(level, log);
        }
      },
    },
  },
  plugins: [compressed()],
  logLevel: 'warn',
});
