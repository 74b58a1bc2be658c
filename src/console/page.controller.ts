import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Controller, Get, Req, Res } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { PublicAccess } from '../http/index.js';
import { Refusal } from '../ledger/index.js';

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.woff2': 'font/woff2',
};

/** Names in assets/ contain a hash of their content. */
const FOREVER = 'public, max-age=31536000, immutable';
/** Stands in index.html where each response has a nonce of its own. */
const NONCE_PLACE = '%NONCE%';
const NONCE_BYTES = 16;

/**
 * No inline script, and nothing from other hosts. The component library puts a few style sheets into the document, which the nonce
 * allows; inline style attributes in HTML are forbidden.
 */
function policyWith(nonce: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}

interface Asset {
  readonly type: string;
  readonly content: Buffer;
  /** Compressed by the build, where that is worth it. */
  readonly brotli?: Buffer;
}

interface Page {
  readonly html: string;
  readonly assets: ReadonlyMap<string, Asset>;
}

/** The build writes the page to dist/page. From src, where tests run, that is one folder further up. */
function folderOfPage(): string {
  const beside = fileURLToPath(new URL('../page', import.meta.url));
  return existsSync(join(beside, 'index.html'))
    ? beside
    : fileURLToPath(new URL('../../dist/page', import.meta.url));
}

/** Reads all files of the page, about a megabyte. */
async function readPage(): Promise<Page> {
  const folder = folderOfPage();
  const names = await readdir(join(folder, 'assets'));
  const read = (name: string): Promise<Buffer> => readFile(join(folder, 'assets', name));
  const assets = await Promise.all(
    names
      .filter((name) => !name.endsWith('.br'))
      .map(async (name): Promise<[string, Asset]> => {
        const type = TYPES[extname(name)] ?? 'application/octet-stream';
        const brotli = names.includes(`${name}.br`) ? { brotli: await read(`${name}.br`) } : {};
        return [name, { type, content: await read(name), ...brotli }];
      }),
  );
  return { html: await readFile(join(folder, 'index.html'), 'utf8'), assets: new Map(assets) };
}

/** Serves the console's page: its files, and index.html for every path that the page itself routes. */
@ApiExcludeController()
@Controller('console')
export class PageController {
  /** Read at the first request, so that it does not slow down the start. */
  private page: Promise<Page> | undefined;

  @Get(['', '*'])
  @PublicAccess()
  async serve(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const path = (request.url.split('?', 1)[0] ?? '').replace(/^\/console\/?/, '');
    const page = await this.load();
    if (path.startsWith('assets/')) {
      this.sendAsset(page.assets.get(path.slice('assets/'.length)), request, reply);
    } else if (isRoute(path)) {
      sendPage(page.html, reply);
    } else {
      throw nothingHere();
    }
  }

  private load(): Promise<Page> {
    this.page ??= readPage().catch((error: unknown) => {
      this.page = undefined;
      throw (error as NodeJS.ErrnoException).code === 'ENOENT'
        ? new Refusal('NOT_FOUND', 'this build has no console; run npm run build')
        : error;
    });
    return this.page;
  }

  private sendAsset(asset: Asset | undefined, { headers }: FastifyRequest, reply: FastifyReply): void {
    if (asset === undefined) {
      throw nothingHere();
    }
    const acceptsBrotli = /\bbr\b/.test(String(headers['accept-encoding'] ?? ''));
    const brotli = acceptsBrotli ? asset.brotli : undefined;
    reply
      .header('content-type', asset.type)
      .header('cache-control', FOREVER)
      .header('vary', 'accept-encoding');
    if (brotli !== undefined) {
      reply.header('content-encoding', 'br');
    }
    void reply.send(brotli ?? asset.content);
  }
}

/** A path of the page has no dot in its last part, which those of files have. */
function isRoute(path: string): boolean {
  return !/^(api|assets)(\/|$)|\.[^/]*$/.test(path);
}

function nothingHere(): Refusal {
  return new Refusal('NOT_FOUND', 'there is nothing at this path');
}

function sendPage(html: string, reply: FastifyReply): void {
  const nonce = randomBytes(NONCE_BYTES).toString('base64');
  void reply
    .header('content-type', 'text/html; charset=utf-8')
    .header('cache-control', 'no-store')
    .header('content-security-policy', policyWith(nonce))
    .header('x-frame-options', 'DENY')
    .header('referrer-policy', 'no-referrer')
    .header('cross-origin-opener-policy', 'same-origin')
    .send(html.replaceAll(NONCE_PLACE, nonce));
}
