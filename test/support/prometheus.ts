import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { prometheusBinary } from '../../scripts/test-tools.mjs';
import { eventually } from './eventually.js';
import { ADMIN_API_KEY, type Json } from './holdfast.js';
import { findFreePort } from './redis-server.js';

export const hasPrometheus = prometheusBinary() !== undefined && prometheusBinary('promtool') !== undefined;
export const WITHOUT_PROMETHEUS = hasPrometheus
  ? ''
  : ' (skipped: Prometheus is not installed, and apt-get cannot download it here)';

const RULES = fileURLToPath(new URL('../../deploy/prometheus/holdfast.rules.yml', import.meta.url));
export const JOB = 'holdfast';
/** A rate needs two samples; one more to be safe. */
const SCRAPES = 3;

export interface Series {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: string;
}

/** A Prometheus that loads the rules of deploy/ and scrapes one service twice a second. */
export class Prometheus {
  private constructor(
    private readonly url: string,
    private readonly child: ChildProcess,
    private readonly folder: string,
  ) {}

  /** Resolves once a rate can be computed. */
  static async scraping(serviceUrl: string): Promise<Prometheus> {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-test-prometheus-'));
    const config = join(folder, 'prometheus.yml');
    writeFileSync(
      config,
      JSON.stringify({
        global: { scrape_interval: '500ms', scrape_timeout: '500ms', evaluation_interval: '500ms' },
        rule_files: [RULES],
        scrape_configs: [
          {
            job_name: JOB,
            authorization: { credentials: ADMIN_API_KEY },
            static_configs: [{ targets: [new URL(serviceUrl).host] }],
          },
        ],
      }),
    );
    const address = `127.0.0.1:${await findFreePort()}`;
    const child = spawn(
      prometheusBinary() as string,
      [
        `--config.file=${config}`,
        `--storage.tsdb.path=${join(folder, 'data')}`,
        `--web.listen-address=${address}`,
        '--log.level=error',
      ],
      { stdio: 'ignore' },
    );
    const prometheus = new Prometheus(`http://${address}`, child, folder);
    try {
      await eventually('Prometheus has scraped the service', async () => {
        const [scraped] = await prometheus.query(`count_over_time(up{job="${JOB}"}[1m]) >= ${SCRAPES}`);
        return scraped !== undefined;
      });
      return prometheus;
    } catch (error) {
      await prometheus.stop();
      throw error;
    }
  }

  /** The series that an expression returns now. Throws the error of an invalid expression. */
  async query(expr: string): Promise<Series[]> {
    const { result } = await this.get(`query?${new URLSearchParams({ query: expr }).toString()}`);
    return result.map(({ metric, value }: Json) => ({ labels: metric, value: value[1] }));
  }

  /** The names of the alerts and recording rules that are loaded. */
  async rules(): Promise<string[]> {
    const { groups } = await this.get('rules');
    return groups.flatMap(({ rules }: Json) => rules.map(({ name }: Json) => name));
  }

  async stop(): Promise<void> {
    this.child.kill('SIGKILL');
    if (this.child.exitCode === null && this.child.signalCode === null) {
      await once(this.child, 'exit');
    }
    rmSync(this.folder, { recursive: true, force: true });
  }

  private async get(path: string): Promise<Json> {
    const answer = await fetch(`${this.url}/api/v1/${path}`);
    const { status, data, error } = (await answer.json()) as Json;
    if (status !== 'success') {
      throw new Error(error);
    }
    return data;
  }
}
