import { readFileSync, writeFileSync } from 'node:fs';
import { expect } from '@jest/globals';
import type { Page } from 'playwright-core';

/** The README shows them. `WRITE_PICTURES=1` takes them again. */
const PICTURES = new URL('../../docs/images/', import.meta.url);

/**
 * The page ships its font, so machines differ only in how they smooth the edges of letters. Two colors are
 * the same if they differ by less than this, of 255. The pixels that may differ are as many as a new entry in
 * the navigation has, but fewer than those of a table row.
 */
const SAME_COLOUR = 48;
const MAX_SHARE = 0.01;

/**
 * Runs in the browser, which decodes both pictures. Returns the share of pixels that differ, or 1 if the
 * sizes do.
 */
const SHARE_OF_DIFFERENCES = `async (pictures) => {
  const [one, other] = await Promise.all(pictures.map(async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const bitmap = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d');
    canvas.drawImage(bitmap, 0, 0);
    return canvas.getImageData(0, 0, bitmap.width, bitmap.height);
  }));
  if (one.width !== other.width || one.height !== other.height) {
    return 1;
  }
  let differing = 0;
  for (let at = 0; at < one.data.length; at += 4) {
    if ([0, 1, 2].some((colour) => Math.abs(one.data[at + colour] - other.data[at + colour]) >= ${SAME_COLOUR})) {
      differing += 1;
    }
  }
  return differing / (one.width * one.height);
}`;

async function shareOfDifferences(page: Page, one: Buffer, other: Buffer): Promise<number> {
  const blank = await page.context().newPage();
  const pictures = JSON.stringify([one, other].map((picture) => picture.toString('base64')));
  const share = await blank.evaluate<number>(`(${SHARE_OF_DIFFERENCES})(${pictures})`);
  await blank.close();
  return share;
}

/** Expects the page to look like the stored picture of this name. */
export async function expectPicture(page: Page, name: string): Promise<void> {
  await page.evaluate('document.fonts.ready');
  const drawn = await page.screenshot({ animations: 'disabled', caret: 'hide' });
  const kept = new URL(`${name}.png`, PICTURES);
  if (process.env['WRITE_PICTURES'] === '1') {
    writeFileSync(kept, drawn);
  }
  const share = await shareOfDifferences(page, drawn, readFileSync(kept));
  expect({ name, share, isAlike: share <= MAX_SHARE }).toEqual({ name, share, isAlike: true });
}
