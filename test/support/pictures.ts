import { readFileSync, writeFileSync } from 'node:fs';
import { expect } from '@jest/globals';
import type { Page } from 'playwright-core';

/** README shows them. `WRITE_PICTURES=1` makes them again. */
const PICTURES = new URL('../../docs/images/', import.meta.url);

/**
 * The page brings its font, so machines differ in the edges of letters only. A colour that differs by less than this, of 255, is the
 * same; and as many pixels may differ as a new entry in the navigation has, but not as many as a row of a table.
 */
const SAME_COLOUR = 48;
const MAX_SHARE = 0.01;

/** Runs in the browser, which decodes both pictures: the share of pixels that differ, 1 if the sizes do. */
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

/** The page looks like the kept picture of this name. */
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
