import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { prometheusBinary } from '../../scripts/test-tools.mjs';
import { REDIS_METRICS } from '../../src/redis/redis.metrics.js';
import { impossibleValues, KnownMetrics, readOfRoot, valuesIn } from '../support/known-metrics.js';
import { hasPrometheus, JOB, Prometheus, type Series, WITHOUT_PROMETHEUS } from '../support/prometheus.js';
import { askedOf } from '../support/promql.js';

interface Rule {
  readonly alert?: string;
  readonly record?: string;
  readonly expr: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

const rules = (
  parse(readOfRoot('deploy/prometheus/holdfast.rules.yml')) as { groups: { rules: Rule[] }[] }
).groups.flatMap(({ rules: some }) => some);
const alerts = rules.filter(({ alert }) => alert !== undefined);

let known: KnownMetrics;

/** What Prometheus returns for each expression of a rule or a panel: series, or an error message. */
const given = new Map<string, readonly Series[] | string>();
let loaded: readonly string[] = [];

beforeAll(async () => {
  known = await KnownMetrics.ofRunningService(recorded(), (url) =>
    hasPrometheus ? askPrometheus(url) : Promise.resolve(),
  );
});

async function askPrometheus(url: string): Promise<void> {
  const prometheus = await Prometheus.scraping(url);
  try {
    loaded = await prometheus.rules();
    for (const expr of [...rules.map((rule) => rule.expr), ...panels.flatMap(expressionsOf)]) {
      given.set(expr, await prometheus.query(asGrafana(expr)).catch(String));
    }
  } finally {
    await prometheus.stop();
  }
}

/** Replaces Grafana's variables by values, as Grafana does. */
const asGrafana = (expr: string): string =>
  expr.replaceAll('$job', JOB).replaceAll('$__rate_interval', '10s');

function recorded(): [string, string[]][] {
  return rules.flatMap(({ record, expr }): [string, string[]][] =>
    record === undefined ? [] : [[record, [...askedOf(expr).groupings]]],
  );
}

describe('the alert rules for Prometheus', () => {
  test('name only metrics and labels that Holdfast has', () => {
    const problems = rules.flatMap(({ alert, record, expr }) =>
      known.problemsOf(askedOf(expr)).map((problem) => `${alert ?? record}: ${problem}`),
    );
    expect(problems).toEqual([]);
  });

  test('would not pass with a metric, a label or a grouping that does not exist', () => {
    const asked = askedOf(
      'sum by (colour) (rate(holdfast_no_such_total[5m])) / up{flavour="sweet"} offset 5m > 0.5 and on (job) holdfast_ready',
    );
    expect(known.problemsOf(asked)).toEqual([
      'there is no metric holdfast_no_such_total',
      'up has no label flavour',
      'nothing has a label colour',
    ]);
  });

  test('ask for label values that the code can give', () => {
    const asked = rules.map(({ expr }) => askedOf(expr));
    expect(impossibleValues(asked)).toEqual([]);
    expect(valuesIn(asked).length).toBeGreaterThan(10);
  });

  test('say what is wrong, in labels that their results have, and how bad it is', () => {
    const wrong = alerts.flatMap(({ alert, expr, labels, annotations }) => {
      const result = known.labelsOfResult(askedOf(expr));
      const shown = [...(annotations?.['summary'] ?? '').matchAll(/\$labels\.(\w+)/g)].map(
        ([, label]) => label as string,
      );
      return [
        ...(annotations?.['summary'] === undefined ? [`${alert} has no summary`] : []),
        ...(['critical', 'warning', 'info'].includes(labels?.['severity'] ?? '')
          ? []
          : [`${alert} has no severity`]),
        ...shown
          .filter((label) => !result.includes(label))
          .map((label) => `${alert} shows ${label}, which its result lacks`),
      ];
    });
    expect(wrong).toEqual([]);
  });

  test('have a playbook each, and every playbook has its alert', () => {
    const headings = [...readOfRoot('docs/playbook.md').matchAll(/^### (Holdfast\w+)$/gm)].map(
      ([, name]) => name,
    );
    expect(headings.sort()).toEqual(alerts.map(({ alert }) => alert).sort());
    expect(new Set(headings).size).toBe(headings.length);
  });
});

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly datasource?: { readonly uid: string };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
}

interface Dashboard {
  readonly uid: string;
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly query: { readonly query?: string } }[];
  };
  readonly annotations: { readonly list: readonly { readonly expr: string }[] };
  readonly panels: readonly Panel[];
}

const DASHBOARDS = new URL('../../deploy/grafana/dashboards/', import.meta.url);
const dashboards = readdirSync(DASHBOARDS).map(
  (file) => [file, JSON.parse(readOfRoot(`deploy/grafana/dashboards/${file}`)) as Dashboard] as const,
);
const panels = dashboards.flatMap(([, dashboard]) => dashboard.panels);
const targets = panels.flatMap(({ title, targets: some = [] }) =>
  some.map(({ expr, legendFormat }) => ({ title, expr, legendFormat, asked: askedOf(expr) })),
);

const expressionsOf = ({ targets: some = [] }: Panel): string[] => some.map(({ expr }) => expr);

/** Metrics that the work of this test does not produce. */
const WITHOUT_SAMPLES = new Set([
  'cycles_events_total',
  'cycles_reservations_expired_total',
  'cycles_reservations_extend_total',
  'cycles_webhook_delivery_failed_total',
  'cycles_webhook_delivery_latency_seconds_bucket',
  'cycles_webhook_delivery_retried_total',
  'cycles_webhook_delivery_success_total',
  'cycles_webhook_subscription_auto_disabled_total',
  'holdfast_auth_failures_total',
  'holdfast_expiry_outcomes_total',
  'holdfast_queries_refused_total',
  'holdfast_webhook_deliveries_waiting',
]);

describe('the dashboards for Grafana', () => {
  test('ask only for metrics and labels that a running service has', () => {
    const expressions = dashboards.flatMap(([, { annotations, templating }]) => [
      ...annotations.list.map(({ expr }) => expr),
      ...templating.list.flatMap(({ query: { query } }) =>
        query === undefined ? [] : [query.replace(/^label_values\((\w+), (\w+)\)$/, '$1{$2="x"}')],
      ),
    ]);
    const asked = [
      ...targets,
      ...expressions.map((expr) => ({ title: expr, legendFormat: '', asked: askedOf(expr) })),
    ];
    const problems = asked.flatMap(({ title, asked: one }) =>
      known.problemsOf(one).map((problem) => `${title}: ${problem}`),
    );
    expect(problems).toEqual([]);
    expect(impossibleValues(targets.map(({ asked: one }) => one))).toEqual([]);
    expect(targets.length).toBeGreaterThan(40);
  });

  test('show series that exist once the service has done some work', () => {
    const names = targets.flatMap(({ asked }) => asked.selectors.map(({ name }) => name));
    const missing = names.filter((name) => !known.sampled.has(name));
    expect(missing.filter((name) => !WITHOUT_SAMPLES.has(name))).toEqual([]);
  });

  test("show every figure of Redis' memory", () => {
    const figures = Object.values(REDIS_METRICS)
      .map(({ name }) => name)
      .filter((name) => /_(?:memory|lazyfree|expired)_/.test(name));
    expect(figures.length).toBe(7);
    const shown = new Set(targets.flatMap(({ asked }) => asked.selectors.map(({ name }) => name)));
    expect(figures.filter((name) => !shown.has(name))).toEqual([]);
  });

  test('filter every series by the job, and name in a legend only labels of the result', () => {
    const unfiltered = targets.flatMap(({ title, asked: { selectors } }) =>
      selectors
        .filter(({ matchers }) => !matchers.some(({ label, value }) => label === 'job' && value === '$job'))
        .map(({ name }) => `${title}: ${name}`),
    );
    expect(unfiltered).toEqual([]);
    const unnamed = targets.flatMap(({ title, legendFormat, asked }) =>
      [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)]
        .filter(([, label = '']) => !known.labelsOfResult(asked).includes(label))
        .map(([shown]) => `${title}: ${shown}`),
    );
    expect(unnamed).toEqual([]);
  });

  test.each(dashboards)('%s has panels of different ids that do not overlap', (file, dashboard) => {
    expect(file).toBe(`${dashboard.uid}.json`);
    const ids = dashboard.panels.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)},${y + Math.floor(cell / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    const wide = dashboard.panels.filter(({ gridPos: { x, w } }) => x + w > 24);
    expect(wide).toEqual([]);
    const sources = dashboard.panels
      .filter(({ type }) => type !== 'row')
      .map(({ datasource }) => datasource?.uid);
    expect(new Set(sources)).toEqual(new Set(['${datasource}']));
  });

  test('are found by the provisioning files', () => {
    const read = (file: string) => parse(readOfRoot(`deploy/grafana/provisioning/${file}`)) as unknown;
    expect(read('dashboards/holdfast.yml')).toMatchObject({
      apiVersion: 1,
      providers: [{ type: 'file', options: { path: '/var/lib/grafana/dashboards/holdfast' } }],
    });
    expect(read('datasources/prometheus.yml')).toMatchObject({
      apiVersion: 1,
      datasources: [{ type: 'prometheus' }],
    });
  });
});

const RULES = fileURLToPath(new URL('../../deploy/prometheus/holdfast.rules.yml', import.meta.url));
const promtool = prometheusBinary('promtool') ?? '';
const severityOf = (name: string): string =>
  alerts.find(({ alert }) => alert === name)?.labels?.['severity'] ?? '';

const WATCHED_ALERTS = [
  'HoldfastArchiveBehind',
  'HoldfastPackingBehind',
  'HoldfastRedisMemoryHigh',
  'HoldfastRedisMemoryFull',
  'HoldfastRedisUnlimited',
  'HoldfastRedisFragmented',
  'HoldfastRedisFreesLate',
  'HoldfastRedisStaleKeys',
];

/** The values of series each minute for half an hour, and the summaries of the alerts that then fire. */
const ALERT_CASES: readonly [string, Record<string, string>, Record<string, string>][] = [
  [
    'raises no alert about a Redis that is well',
    {
      holdfast_redis_memory_used_bytes: '8e8+0x30',
      holdfast_redis_memory_max_bytes: '1e9+0x30',
      holdfast_redis_memory_system_bytes: '4e8+0x30',
      holdfast_redis_memory_fragmentation_ratio: '1.5+0x30',
      holdfast_redis_lazyfree_pending_objects: '10000+0x30',
      holdfast_redis_expired_stale_percent: '10+0x30',
    },
    {},
  ],
  [
    'alerts of memory near its limit',
    {
      holdfast_redis_memory_used_bytes: '96e7+0x30',
      holdfast_redis_memory_max_bytes: '1e9+0x30',
      holdfast_redis_memory_system_bytes: '9e9+0x30',
    },
    {
      HoldfastRedisMemoryHigh: 'Redis uses 96% of the memory it may use',
      HoldfastRedisMemoryFull:
        'Redis uses 96% of the memory it may use; new reservations are about to be refused',
    },
  ],
  [
    'alerts of memory also where there is no limit, and that there is none',
    {
      holdfast_redis_memory_used_bytes: '96e7+0x30',
      holdfast_redis_memory_max_bytes: '0+0x30',
      holdfast_redis_memory_system_bytes: '1e9+0x30',
    },
    {
      HoldfastRedisMemoryHigh: 'Redis uses 96% of the memory it may use',
      HoldfastRedisMemoryFull:
        'Redis uses 96% of the memory it may use; new reservations are about to be refused',
      HoldfastRedisUnlimited: 'the Redis of a has no maxmemory',
    },
  ],
  [
    'alerts of fragmentation, of late freeing and of stale keys',
    {
      holdfast_redis_memory_used_bytes: '5e8+0x30',
      holdfast_redis_memory_max_bytes: '1e9+0x30',
      holdfast_redis_memory_fragmentation_ratio: '1.6+0x30',
      holdfast_redis_lazyfree_pending_objects: '10001+0x30',
      holdfast_redis_expired_stale_percent: '11+0x30',
    },
    {
      HoldfastRedisFragmented: 'Redis holds 1.6 times the memory that it uses',
      HoldfastRedisFreesLate: '10k objects wait to be freed by Redis',
      HoldfastRedisStaleKeys: '11 % of the keys of Redis have lapsed and still take memory',
    },
  ],
  [
    'alerts of records that have long waited to be packed',
    { holdfast_records_to_pack: '100001+1000x30' },
    { HoldfastPackingBehind: '130k entries of the journal wait for a to pack their records' },
  ],
  [
    'alerts of an archive that is behind',
    { holdfast_archive_lag_seconds: '901+0x30' },
    { HoldfastArchiveBehind: 'what a archives has waited for 15m 1s' },
  ],
  [
    'does not alert of records to pack that a load has left, and that have become fewer',
    { holdfast_records_to_pack: '400000-12000x30' },
    {},
  ],
  [
    'does not alert of the fragmentation of a Redis with hardly any data',
    {
      holdfast_redis_memory_used_bytes: '2e6+0x30',
      holdfast_redis_memory_max_bytes: '1e9+0x30',
      holdfast_redis_memory_fragmentation_ratio: '9+0x30',
    },
    {},
  ],
];

(hasPrometheus ? describe : describe.skip)(`Prometheus${WITHOUT_PROMETHEUS}`, () => {
  test('loads every alert and record', () => {
    expect([...loaded].sort()).toEqual(rules.map(({ alert, record }) => alert ?? record).sort());
  });

  test('finds no mistake in the rules with promtool', () => {
    const { status, stdout, stderr } = spawnSync(promtool, ['check', 'rules', RULES], { encoding: 'utf8' });
    expect({ status, problems: status === 0 ? '' : stdout + stderr }).toEqual({ status: 0, problems: '' });
  });

  test.each(ALERT_CASES)('%s', (_what, series, firing) => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-test-promtool-'));
    const file = join(folder, 'test.json');
    const alertname = (name: string): object => ({
      eval_time: '30m',
      alertname: name,
      exp_alerts: (firing[name] === undefined ? [] : [firing[name]]).map((summary) => ({
        exp_labels: { job: JOB, instance: 'a', severity: severityOf(name) },
        exp_annotations: { summary },
      })),
    });
    writeFileSync(
      file,
      JSON.stringify({
        rule_files: [RULES],
        evaluation_interval: '1m',
        tests: [
          {
            interval: '1m',
            input_series: Object.entries(series).map(([name, values]) => ({
              series: `${name}{job="${JOB}",instance="a"}`,
              values,
            })),
            alert_rule_test: WATCHED_ALERTS.map(alertname),
          },
        ],
      }),
    );
    const { status, stdout, stderr } = spawnSync(promtool, ['test', 'rules', file], { encoding: 'utf8' });
    rmSync(folder, { recursive: true, force: true });
    expect({ status, problems: status === 0 ? '' : stdout + stderr }).toEqual({ status: 0, problems: '' });
  });

  test('evaluates every expression of the rules and the panels', () => {
    const problems = [...given].filter(([, answer]) => typeof answer === 'string');
    expect(problems).toEqual([]);
    expect(given.size).toBeGreaterThan(80);
  });

  test('has series for every panel whose metrics have samples, with the labels of its legend', () => {
    const problems = targets.flatMap(({ title, expr, legendFormat, asked }) => {
      const series = given.get(expr) as readonly Series[];
      const shown = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = '']) => label);
      // The tests' Redis has no memory limit, so expressions that require one above 0 return nothing.
      const isSampled =
        !expr.includes('> 0') &&
        asked.selectors.every(({ name }) => known.sampled.has(name) && !WITHOUT_SAMPLES.has(name));
      return [
        ...(isSampled && series.length === 0 ? [`${title} has no series: ${expr}`] : []),
        ...shown
          .filter((label) => series.some(({ labels }) => labels[label] === undefined))
          .map((label) => `${title} has series without ${label}`),
      ];
    });
    expect(problems).toEqual([]);
  });
});
