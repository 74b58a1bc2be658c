import { beforeEach, expect, test } from '@jest/globals';
import { MetricsRegistry } from '../../src/telemetry/metrics-registry.js';
import type { MetricsTable } from '../../src/telemetry/metrics-table.js';

const TABLE = {
  probes: { name: 'probes_total', help: 'Probes.', labels: ['tenant', 'outcome'] },
  runs: { name: 'probe_runs_total', help: 'Runs.' },
  depth: { name: 'probe_depth', help: 'Depth.', acrossWorkers: 'max' },
  seconds: { name: 'probe_seconds', help: 'Durations.', buckets: [1, 5] },
} as const satisfies MetricsTable;

let metrics: MetricsRegistry;
beforeEach(() => {
  metrics = new MetricsRegistry({ metricsTenantLabel: true });
});

/** Samples as `label="value" number`. */
async function samplesOf(name: string): Promise<string[]> {
  const text = await metrics.registry.getSingleMetricAsString(name);
  return [...text.matchAll(/^\w+\{(.*?),?application="[^"]+"\} (.+)$/gm)].map(([, labels = '', value = '']) =>
    `${labels} ${value}`.trimStart(),
  );
}

test('a table counts under its names and labels, and whoever asks for it again counts in the same metrics', async () => {
  metrics.of(TABLE).probes.inc({ tenant: 'acme', outcome: 'found' });
  metrics.of(TABLE).probes.inc({ tenant: 'acme', outcome: 'found' }, 2);
  metrics.of(TABLE).runs.inc(0);
  metrics.of(TABLE).runs.inc();
  metrics.of(TABLE).seconds.observe(3);
  expect(await samplesOf('probes_total')).toEqual(['tenant="acme",outcome="found" 3']);
  expect(await samplesOf('probe_runs_total')).toEqual(['1']);
  expect(await samplesOf('probe_seconds')).toContain('le="5" 1');
});

test('a gauge shows what it was set to, or what it reads at each scrape', async () => {
  const { depth } = metrics.of(TABLE);
  depth.set(7);
  expect(await samplesOf('probe_depth')).toEqual(['7']);
  let read = 1;
  depth.readFrom(() => Promise.resolve(read));
  expect(await samplesOf('probe_depth')).toEqual(['1']);
  read = 2;
  expect(await samplesOf('probe_depth')).toEqual(['2']);
});

test('two tables cannot have a metric of the same name', () => {
  metrics.of(TABLE);
  expect(() => metrics.of({ ...TABLE })).toThrow('has already been registered');
});

test.each([
  ['a counter with buckets', { name: 'odd_total', help: 'Odd.', buckets: [1] }],
  ['a counter across workers', { name: 'odd_total', help: 'Odd.', acrossWorkers: 'max' }],
  ['a histogram across workers', { name: 'odd_seconds', help: 'Odd.', buckets: [1], acrossWorkers: 'max' }],
] as const)('%s is refused', (_of, odd) => {
  expect(() => metrics.of({ odd })).toThrow('only a gauge takes acrossWorkers');
});

test('a name or label that the table does not declare does not compile, nor does a missing one', () => {
  const counts = metrics.of(TABLE);
  const uses = [
    // @ts-expect-error -- not in the table
    () => counts.unknown.inc(),
    // @ts-expect-error -- a label too few
    () => counts.probes.inc({ tenant: 'acme' }),
    // @ts-expect-error -- a label too many
    () => counts.probes.inc({ tenant: 'acme', outcome: 'found', reason: 'none' }),
    // @ts-expect-error -- without its labels
    () => counts.probes.inc(),
    // @ts-expect-error -- labels that it does not have
    () => counts.runs.inc({ outcome: 'found' }),
    // @ts-expect-error -- a counter is not set
    () => counts.runs.set(1),
  ];
  expect(uses).toHaveLength(6);
});
