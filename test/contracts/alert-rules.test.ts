import { readFileSync, readdirSync } from 'node:fs';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { GroupMetrics } from '../../src/telemetry/group-metrics.js';
import { createLogger } from '../../src/telemetry/logger.js';
import { MetricsRegistry } from '../../src/telemetry/metrics-registry.js';
import { ADMIN_API_KEY, Holdfast } from '../support/holdfast.js';
import { askedOf, type Asked } from '../support/promql.js';

interface Rule {
  readonly alert?: string;
  readonly record?: string;
  readonly expr: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

const root = new URL('../../', import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, root), 'utf8');
const rules = (
  parse(read('deploy/prometheus/holdfast.rules.yml')) as { groups: { rules: Rule[] }[] }
).groups.flatMap(({ rules: some }) => some);
const alerts = rules.filter(({ alert }) => alert !== undefined);

/** What Prometheus knows of every target. */
const TARGET_LABELS = ['job', 'instance'];
const ofPrometheus: readonly [string, string[]][] = [['up', TARGET_LABELS]];

/** What the parent of several workers adds. */
const ofParent = new GroupMetrics(() => [], createLogger('silent'));

/** The labels of each metric, by its name. */
let known: ReadonlyMap<string, ReadonlySet<string>>;

beforeAll(async () => {
  const holdfast = await Holdfast.start();
  try {
    // The histogram of requests has the labels that it has been given so far.
    await holdfast.call('GET', '/health/live');
    const { text } = await holdfast.call('GET', '/metrics', {
      headers: { 'x-admin-api-key': ADMIN_API_KEY },
    });
    known = new Map(
      [
        ...scraped(text, holdfast.app.get(MetricsRegistry)),
        ...scraped(await ofParent.text(), ofParent),
        ...ofPrometheus,
        ...recorded(),
      ].map(([name, labels]) => [name, new Set([...labels, ...TARGET_LABELS])]),
    );
  } finally {
    await holdfast.stop();
  }
});

/** A scrape names every metric that is registered; those without a sample yet have their labels in the registry. */
function scraped(text: string, { registry }: Pick<MetricsRegistry, 'registry'>): [string, string[]][] {
  return [...text.matchAll(/^# TYPE (\S+) (\w+)$/gm)].flatMap(([, name = '', type]) => {
    const registered =
      (registry.getSingleMetric(name) as { labelNames?: string[] } | undefined)?.labelNames ?? [];
    const sampled = [...text.matchAll(new RegExp(`^${name}(?:_bucket)?\\{(.*)\\} `, 'gm'))].flatMap(
      ([, labels = '']) => [...labels.matchAll(/(\w+)="/g)].map(([, label]) => label as string),
    );
    // Prometheus keeps `job` for the target.
    const labels = [...registered, ...sampled].map((label) => (label === 'job' ? 'exported_job' : label));
    return type === 'histogram'
      ? [
          [`${name}_bucket`, [...labels, 'le']],
          [`${name}_sum`, labels],
          [`${name}_count`, labels],
        ]
      : [[name, labels]];
  });
}

function recorded(): [string, string[]][] {
  return rules.flatMap(({ record, expr }): [string, string[]][] =>
    record === undefined ? [] : [[record, [...askedOf(expr).groupings]]],
  );
}

function problemsOf({ selectors, groupings }: Asked): string[] {
  const labelsOf = (name: string): ReadonlySet<string> => known.get(name) ?? new Set();
  const unknown = selectors
    .filter(({ name }) => !known.has(name))
    .map(({ name }) => `there is no metric ${name}`);
  const matched = selectors.flatMap(({ name, matchers }) =>
    matchers
      .filter(({ label }) => !labelsOf(name).has(label))
      .map(({ label }) => `${name} has no label ${label}`),
  );
  const grouped = groupings
    .filter((label) => !selectors.some(({ name }) => labelsOf(name).has(label)))
    .map((label) => `nothing has a label ${label}`);
  return [...unknown, ...matched, ...grouped];
}

/** An aggregation leaves the labels that it groups by; a recorded series has been aggregated already. */
function labelsOfResult({ selectors, groupings }: Asked): string[] {
  const left = groupings.length === 0 ? selectors : selectors.filter(({ name }) => name.includes(':'));
  return [...groupings, ...left.flatMap(({ name }) => [...(known.get(name) ?? [])])];
}

describe('the alert rules for Prometheus', () => {
  test('name only metrics and labels that Holdfast has', () => {
    const problems = rules.flatMap(({ alert, record, expr }) =>
      problemsOf(askedOf(expr)).map((problem) => `${alert ?? record}: ${problem}`),
    );
    expect(problems).toEqual([]);
  });

  test('would not pass with a metric, a label or a grouping that does not exist', () => {
    const asked = askedOf(
      'sum by (colour) (rate(holdfast_no_such_total[5m])) / up{flavour="sweet"} offset 5m > 0.5 and on (job) holdfast_ready',
    );
    expect(problemsOf(asked)).toEqual([
      'there is no metric holdfast_no_such_total',
      'up has no label flavour',
      'nothing has a label colour',
    ]);
  });

  test('ask for label values that the code can give', () => {
    const files = readdirSync(new URL('src/', root), { recursive: true, encoding: 'utf8' }).filter((file) =>
      file.endsWith('.ts'),
    );
    const code = files.map((file) => read(`src/${file}`)).join('\n');
    const values = rules
      .flatMap(({ expr }) => askedOf(expr).selectors.flatMap(({ matchers }) => matchers))
      .filter(({ label }) => label !== 'job' && label !== 'uri');
    const missing = values
      .flatMap(({ value }) => value.split('|'))
      .filter((value) => !code.includes(`'${value}'`));
    expect(missing).toEqual([]);
    expect(values.length).toBeGreaterThan(10);
  });

  test('say what is wrong, in labels that their results have, and how bad it is', () => {
    const wrong = alerts.flatMap(({ alert, expr, labels, annotations }) => {
      const result = labelsOfResult(askedOf(expr));
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
          .map((label) => `${alert} shows ${label}, which its result has not`),
      ];
    });
    expect(wrong).toEqual([]);
  });

  test('have each its playbook, and every playbook its alert', () => {
    const headings = [...read('docs/playbook.md').matchAll(/^### (Holdfast\w+)$/gm)].map(([, name]) => name);
    expect(headings.sort()).toEqual(alerts.map(({ alert }) => alert).sort());
    expect(new Set(headings).size).toBe(headings.length);
  });
});
