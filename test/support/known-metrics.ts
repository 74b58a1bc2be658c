import { readdirSync, readFileSync } from 'node:fs';
import { GroupMetrics } from '../../src/telemetry/group-metrics.js';
import { createLogger } from '../../src/telemetry/logger.js';
import { MetricsRegistry } from '../../src/telemetry/metrics-registry.js';
import { ADMIN_API_KEY, expectStatus, Holdfast } from './holdfast.js';
import type { Asked } from './promql.js';

const root = new URL('../../', import.meta.url);

export const readOfRoot = (path: string): string => readFileSync(new URL(path, root), 'utf8');

/** Labels that Prometheus adds to every target. */
const TARGET_LABELS = ['job', 'instance'];
const ofPrometheus: readonly [string, string[]][] = [
  ['up', TARGET_LABELS],
  ['ALERTS', ['alertname', 'alertstate', 'severity']],
];

/** The metrics that the parent of several workers adds. */
const ofParent = new GroupMetrics(() => [], createLogger('silent'));

/** The metrics of a service that has done some work, with their labels. */
export class KnownMetrics {
  private constructor(
    private readonly labels: ReadonlyMap<string, ReadonlySet<string>>,
    /** The metrics that have samples. */
    readonly sampled: ReadonlySet<string>,
  ) {}

  /**
   * @param more further series, such as those of recording rules
   * @param use is called with the service's address
   */
  static async ofRunningService(
    more: readonly [string, readonly string[]][] = [],
    use: (url: string) => Promise<void> = () => Promise.resolve(),
  ): Promise<KnownMetrics> {
    const holdfast = await Holdfast.start();
    try {
      await work(holdfast);
      await use(holdfast.url);
      const { text } = await holdfast.call('GET', '/metrics', {
        headers: { 'x-admin-api-key': ADMIN_API_KEY },
      });
      const found = [
        ...scraped(text, holdfast.app.get(MetricsRegistry)),
        ...scraped(await ofParent.text(), ofParent),
        ...ofPrometheus,
        ...more,
      ];
      const sampled = [...text.matchAll(/^(\w+)[{ ]/gm)].map(([, name = '']) => name);
      return new KnownMetrics(
        new Map(found.map(([name, labels]) => [name, new Set([...labels, ...TARGET_LABELS])])),
        new Set(sampled),
      );
    } finally {
      await holdfast.stop();
    }
  }

  labelsOf(name: string): ReadonlySet<string> {
    return this.labels.get(name) ?? new Set();
  }

  problemsOf({ selectors, groupings }: Asked): string[] {
    const unknown = selectors
      .filter(({ name }) => !this.labels.has(name))
      .map(({ name }) => `there is no metric ${name}`);
    const matched = selectors.flatMap(({ name, matchers }) =>
      matchers
        .filter(({ label }) => !this.labelsOf(name).has(label))
        .map(({ label }) => `${name} has no label ${label}`),
    );
    const grouped = groupings
      .filter((label) => !selectors.some(({ name }) => this.labelsOf(name).has(label)))
      .map((label) => `nothing has a label ${label}`);
    return [...unknown, ...matched, ...grouped];
  }

  /** An aggregation keeps the labels that it groups by. A recorded series has already been aggregated. */
  labelsOfResult({ selectors, groupings }: Asked): string[] {
    const left = groupings.length === 0 ? selectors : selectors.filter(({ name }) => name.includes(':'));
    return [...groupings, ...left.flatMap(({ name }) => [...this.labelsOf(name)])];
  }
}

/**
 * A reserve, a denial, a commit and a release: counters with labels have no samples until they first count.
 */
async function work(holdfast: Holdfast): Promise<void> {
  const tenant = await holdfast.fundedTenant(100);
  const held = async (): Promise<string> => await holdfast.hold(tenant, 10);
  expectStatus(await holdfast.commit(tenant, await held(), 10), 200);
  expectStatus(await holdfast.settle(tenant, 'release', await held()), 200);
  expectStatus(await holdfast.reserve(tenant, 1000), 409);
}

/** A scrape names every registered metric. The labels of those without a sample come from the registry. */
function scraped(text: string, { registry }: Pick<MetricsRegistry, 'registry'>): [string, string[]][] {
  return [...text.matchAll(/^# TYPE (\S+) (\w+)$/gm)].flatMap(([, name = '', type]) => {
    const registered =
      (registry.getSingleMetric(name) as { labelNames?: string[] } | undefined)?.labelNames ?? [];
    const sampled = [...text.matchAll(new RegExp(`^${name}(?:_bucket)?\\{(.*)\\} `, 'gm'))].flatMap(
      ([, labels = '']) => [...labels.matchAll(/(\w+)="/g)].map(([, label]) => label as string),
    );
    // Prometheus uses `job` for the target itself.
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

/** Values in matchers that no string literal of the sources contains, so they can never match. */
export function impossibleValues(expressions: readonly Asked[]): string[] {
  const files = readdirSync(new URL('src/', root), { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.ts'),
  );
  const code = files.map((file) => readOfRoot(`src/${file}`)).join('\n');
  return valuesIn(expressions).filter((value) => !code.includes(`'${value}'`));
}

/** The values in matchers, except those of labels whose values the sources do not spell out. */
export function valuesIn(expressions: readonly Asked[]): string[] {
  return expressions
    .flatMap(({ selectors }) => selectors.flatMap(({ matchers }) => matchers))
    .filter(({ label }) => !['job', 'uri', 'alertstate'].includes(label))
    .flatMap(({ value }) => value.split('|'));
}
