import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import { afterAll, beforeAll, describe, expect } from '@jest/globals';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { chromiumBinary } from '../../scripts/test-tools.mjs';
import { ConsoleClient } from './console-client.js';
import { ADMIN_API_KEY } from './holdfast.js';
import { patience } from './time-limits.js';

/**
 * The first flags stop Chromium from contacting Google's hosts, for example for updates. As root, Chromium
 * only runs without its sandbox.
 */
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-dev-shm-usage',
  // Otherwise text widths, and with them the layout in the pictures, differ between builds of Chromium.
  '--font-render-hinting=none',
];
const WAIT_MS = 15_000;

const binary = chromiumBinary();

/** A `describe` for tests that need a browser. Without one, they are skipped and their titles say so. */
export const describeInBrowser = binary === undefined ? describe.skip : describe;
export const WITHOUT_BROWSER =
  binary === undefined ? ' (skipped: Chromium is not installed, and apt-get cannot install it here)' : '';

export interface ConsolePage {
  readonly page: Page;
  /** Errors that the page logged, and what its Content-Security-Policy blocked. Must stay empty. */
  readonly complaints: string[];
}

/** The color scheme and the width that a page is viewed with. */
export interface Look {
  readonly colorScheme?: 'light' | 'dark';
  readonly width?: number;
}

/** Every page is viewed in the default look, and then narrow and dark. */
export const WIDE_AND_NARROW: readonly Look[] = [{}, { colorScheme: 'dark', width: 390 }];
export const LIGHT_AND_DARK: readonly Look[] = [{}, { colorScheme: 'dark' }];
const WIDTH = 1280;
const HEIGHT = 860;

const CONTEXT = {
  viewport: { width: WIDTH, height: HEIGHT },
  locale: 'en-GB',
  timezoneId: 'Europe/Berlin',
  reducedMotion: 'reduce',
} as const;

/** One browser for all tests of a file. */
export class ConsoleBrowser {
  private browser: Browser | undefined;
  private readonly profile = mkdtempSync(join(tmpdir(), 'holdfast-test-browser-'));
  /** By the key of their session. */
  private readonly profiles = new Map<string, BrowserContext>();

  constructor() {
    beforeAll(async () => {
      if (binary !== undefined) {
        const options = { args: FLAGS, env: { HOME: this.profile, PATH: process.env['PATH'] ?? '' } };
        this.browser = await chromium.launch({ executablePath: binary, ...options });
      }
    });
    afterAll(async () => {
      await this.browser?.close();
      rmSync(this.profile, { recursive: true, force: true });
    });
  }

  /** Opens a path of the console in a new profile. */
  async open(
    url: string,
    path: string,
    settings: Parameters<Browser['newContext']>[0] = {},
  ): Promise<ConsolePage & { readonly context: BrowserContext }> {
    const context = await this.newProfile(settings);
    return { ...(await openIn(context, url, path)), context };
  }

  /** Opens a path with a session, which is faster than logging in through the form. */
  async enter(
    url: string,
    path: string,
    { key = ADMIN_API_KEY, ...settings }: { key?: string } & Parameters<Browser['newContext']>[0] = {},
  ): Promise<ConsolePage & { readonly context: BrowserContext }> {
    const context = await this.newProfile(settings);
    await addSession(context, url, key);
    return { ...(await openIn(context, url, path)), context };
  }

  /**
   * Opens a path with a session, waits for a text that the page's data contains, and calls `use` with the
   * page. Afterwards checks the page in all looks; `use` sees the first one. Visits with the same key share a
   * profile, and with it the browser's cache.
   */
  async visit(
    url: string,
    path: string,
    text: string,
    use: (page: Page) => Promise<void> = () => Promise.resolve(),
    { key = ADMIN_API_KEY, looks = [{}] }: { key?: string; looks?: readonly Look[] } = {},
  ): Promise<void> {
    const known = this.profiles.get(key);
    const context = known ?? (await this.newProfile());
    if (known === undefined) {
      await addSession(context, url, key);
      this.profiles.set(key, context);
    }
    const { page, complaints } = await openIn(context, url, path, looks[0]);
    await page.getByText(text).first().waitFor();
    await use(page);
    for (const [index, look] of looks.entries()) {
      if (index > 0) {
        await showAs(page, look);
      }
      await expectAccessible(page);
      expect(await tooWide(page)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth <= window.innerWidth')).toBe(true);
    }
    // No script that a client stored may have run.
    expect(await page.title()).toMatch(/ · Holdfast$/);
    expect(complaints).toEqual([]);
    await page.close();
  }

  private async newProfile(settings: Parameters<Browser['newContext']>[0] = {}): Promise<BrowserContext> {
    const context = await (this.browser as Browser).newContext({ ...CONTEXT, ...settings });
    context.setDefaultTimeout(patience(WAIT_MS));
    return context;
  }
}

async function addSession(context: BrowserContext, url: string, key: string): Promise<void> {
  const client = new ConsoleClient(url);
  await client.logIn(key);
  const [name = '', value = ''] = client.cookie.split('=', 2);
  await context.addCookies([{ name, value, url, httpOnly: true, sameSite: 'Strict' }]);
}

async function openIn(context: BrowserContext, url: string, path: string, look?: Look): Promise<ConsolePage> {
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => {
    // A test that causes failed requests checks them itself.
    if (message.type() === 'error' && !message.text().includes('Failed to load resource')) {
      complaints.push(message.text());
    }
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith('data:')) {
      complaints.push(`a request to ${request.url()}`);
    }
  });
  if (look !== undefined) {
    await resize(page, look);
  }
  await page.goto(`${url}/console${path}`);
  return { page, complaints };
}

async function resize(page: Page, { colorScheme = 'light', width = WIDTH }: Look): Promise<void> {
  await page.emulateMedia({ colorScheme });
  await page.setViewportSize({ width, height: HEIGHT });
}

/** Changes the look of an open page and waits until it has been applied. */
async function showAs(page: Page, look: Look): Promise<void> {
  await resize(page, look);
  const scheme = look.colorScheme ?? 'light';
  await page.locator(`html[data-mantine-color-scheme="${scheme}"]`).waitFor({ state: 'attached' });
  await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))');
}

/** Elements that are wider than the window and not inside a table that scrolls. */
export function tooWide(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(
    "[...document.querySelectorAll('main *')].filter((part) => part.parentElement.closest('.table-wrap') === null && part.getBoundingClientRect().right > window.innerWidth).map((part) => part.outerHTML.slice(0, 120))",
  );
}

/** Boxes whose content stands over what is beside them, and not inside a table that scrolls. */
export function spilling(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(
    `[...document.querySelectorAll('main *, [role=dialog], [role=dialog] *')]
      .filter((box) => box.closest('.table-wrap, select, input, textarea') === null &&
        box.clientWidth > 1 && box.scrollWidth > box.clientWidth + 1 &&
        getComputedStyle(box).overflowX === 'visible')
      .map((box) => box.outerHTML.slice(0, 160))`,
  );
}

/** Markup that reveals itself if it is not shown as plain text. */
export const ATTACK = '<img src=x onerror="document.title=1"><script>document.title=2</script>';
/** The same, for values that are short or have no spaces, such as URLs. */
export const SHORT_ATTACK = '<img/src="x"/onerror="document.title=3">';

export async function logIn(page: Page, key: string): Promise<void> {
  await page.getByLabel('Key', { exact: true }).fill(key);
  await page.getByRole('button', { name: 'Log in' }).click();
}

/** WCAG 2.2 AA, as far as it can be checked automatically. */
export async function expectAccessible(page: Page): Promise<void> {
  // axe does not judge the contrast of texts over gradients, which the shades at the edges of tables are.
  await setBackgroundOfTables(page, 'none');
  const { violations } = await new AxeBuilder({ page })
    .options({ resultTypes: ['violations'] })
    .withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'])
    // Legacy mode, because the pages have no frames. Otherwise axe would open a second page to merge the
    // results of all frames.
    .setLegacyMode()
    .analyze();
  await setBackgroundOfTables(page, '');
  expect(
    violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 200)).join('\n')}`),
  ).toEqual([]);
}

const setBackgroundOfTables = (page: Page, background: string): Promise<void> =>
  page.evaluate(
    `document.querySelectorAll('.table-wrap').forEach(({ style }) => { style.background = '${background}'; })`,
  );
