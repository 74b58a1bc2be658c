import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import { afterAll, beforeAll, describe, expect } from '@jest/globals';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { chromiumBinary } from '../../scripts/install.mjs';
import { ConsoleClient } from './console-client.js';
import { ADMIN_API_KEY } from './holdfast.js';
import { patience } from './time-limits.js';

/** Chromium looks for updates and Google's hosts without these. As root, it needs to run without its sandbox. */
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-dev-shm-usage',
];
const WAIT_MS = 15_000;

const binary = chromiumBinary();

/** Groups tests that need a browser. Where none is installed, they are skipped and say so. */
export const describeInBrowser = binary === undefined ? describe.skip : describe;
export const WITHOUT_BROWSER =
  binary === undefined ? ' (skipped: Chromium is not installed, and apt-get cannot install it here)' : '';

export interface ConsolePage {
  readonly page: Page;
  /** What the page logged as an error, and what its Content-Security-Policy refused. Must stay empty. */
  readonly complaints: string[];
}

/** One browser for the tests of a file. */
export class ConsoleBrowser {
  private browser: Browser | undefined;
  private readonly profile = mkdtempSync(join(tmpdir(), 'holdfast-test-browser-'));

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
    cookies: Parameters<BrowserContext['addCookies']>[0] = [],
  ): Promise<ConsolePage & { readonly context: BrowserContext }> {
    const context = await (this.browser as Browser).newContext({
      viewport: { width: 1280, height: 860 },
      locale: 'en-GB',
      timezoneId: 'Europe/Berlin',
      reducedMotion: 'reduce',
      ...settings,
    });
    context.setDefaultTimeout(patience(WAIT_MS));
    await context.addCookies(cookies);
    const page = await context.newPage();
    const complaints: string[] = [];
    page.on('console', (message) => {
      // A refused request is the business of the test that causes it.
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
    await page.goto(`${url}/console${path}`);
    return { page, complaints, context };
  }

  /** The same with a session, which takes less time than to log in by hand. */
  async enter(
    url: string,
    path: string,
    { key = ADMIN_API_KEY, ...settings }: { key?: string } & Parameters<Browser['newContext']>[0] = {},
  ): Promise<ConsolePage & { readonly context: BrowserContext }> {
    const client = new ConsoleClient(url);
    await client.logIn(key);
    const [name = '', value = ''] = client.cookie.split('=', 2);
    const cookies = [{ name, value, url, httpOnly: true, sameSite: 'Strict' as const }];
    return this.open(url, path, settings, cookies);
  }

  /** Enters, waits for a text of the page's data, and leaves the page to `use`. Nothing on it may be wrong afterwards. */
  async visit(
    url: string,
    path: string,
    text: string,
    use: (page: Page) => Promise<void> = () => Promise.resolve(),
    settings: Parameters<ConsoleBrowser['enter']>[2] = {},
  ): Promise<void> {
    const { page, complaints, context } = await this.enter(url, path, settings);
    await page.getByText(text).first().waitFor();
    await use(page);
    await expectAccessible(page);
    expect(await page.evaluate('document.documentElement.scrollWidth <= window.innerWidth')).toBe(true);
    // What a client stored must not have run.
    expect(await page.title()).toBe('Holdfast');
    expect(complaints).toEqual([]);
    await context.close();
  }
}

/** What is wider than the window, and is not in a table that scrolls by itself. */
export function tooWide(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(
    "[...document.querySelectorAll('main *')].filter((part) => part.parentElement.closest('.table-wrap') === null && part.getBoundingClientRect().right > window.innerWidth).map((part) => part.outerHTML.slice(0, 120))",
  );
}

/** Markup that would show itself if it were not taken as text. */
export const ATTACK = '<img src=x onerror="document.title=1"><script>document.title=2</script>';
/** The same for texts that are short or have no spaces, such as URLs. */
export const SHORT_ATTACK = '<img/src="x"/onerror="document.title=3">';

export async function logIn(page: Page, key: string): Promise<void> {
  await page.getByLabel('Key', { exact: true }).fill(key);
  await page.getByRole('button', { name: 'Log in' }).click();
}

/** WCAG 2.2 AA, as far as a machine can tell. */
export async function expectAccessible(page: Page): Promise<void> {
  const { violations } = await new AxeBuilder({ page })
    .withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'])
    .analyze();
  expect(
    violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 200)).join('\n')}`),
  ).toEqual([]);
}
