import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, test } from '@jest/globals';
import {
  ConsoleBrowser,
  describeInBrowser,
  WIDE_AND_NARROW,
  WITHOUT_BROWSER,
} from '../support/console-browser.js';
import { Holdfast } from '../support/holdfast.js';

describeInBrowser(`the page of restores and upgrades${WITHOUT_BROWSER}`, () => {
  const browser = new ConsoleBrowser();
  let dataDir: string;
  let holdfast: Holdfast;

  beforeAll(async () => {
    dataDir = mkdtempSync(join(tmpdir(), 'maintenance-'));
    holdfast = await Holdfast.start({
      DATA_DIR: dataDir,
      REDIS_APPENDFSYNC: 'everysec',
      HOLDFAST_ROLES: 'api,archiver',
    });
  });

  afterAll(async () => {
    await holdfast?.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });

  test('says what the embedded Redis means for both, and that the archive goes along', async () => {
    await browser.visit(
      holdfast.url,
      '/maintenance',
      'Seconds of downtime',
      async (page) => {
        const facts = page.getByRole('region', { name: 'What runs' });
        await facts.getByText('embedded').waitFor();
        await facts.getByText('kept', { exact: true }).waitFor();
        await facts.getByText('written by this instance').waitFor();
        await page.getByText('npm run restore -- backup --rehearse').waitFor();
        await page.getByText('says whether the archive goes along').waitFor();
      },
      { looks: WIDE_AND_NARROW },
    );
  });
});
