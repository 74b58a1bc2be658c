import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** A counter's name ends in `_total`, a histogram has buckets, and every other metric is a gauge. */
export interface MetricSpec {
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly string[];
  /** What several worker processes show together: `max` or `min` where each of them sees the same thing; by default the sum. */
  readonly acrossWorkers?: 'sum' | 'max' | 'min';
  readonly buckets?: readonly number[];
}

/** The metrics of a capability, by the names under which its code counts: declare it with `as const satisfies MetricsTable`. */
export type MetricsTable = Readonly<Record<string, MetricSpec>>;

/** One value for each declared label. */
type Labels<S> = S extends { readonly labels: readonly (infer Label extends string)[] }
  ? [labels: Readonly<Record<Label, string | undefined>>]
  : [];

type Series<S> = readonly (readonly [value: number, ...labels: Labels<S>])[];
type Read<S> = S extends { readonly labels: readonly string[] } ? Series<S> : number;

interface CounterOf<S> {
  inc(...args: [...labels: Labels<S>, by?: number]): void;
}

interface GaugeOf<S> {
  set(...args: [value: number, ...labels: Labels<S>]): void;
  /** From now on, these are its only series. */
  replace(series: Series<S>): void;
  /** From now on, each scrape reads the value, or the series of a gauge with labels. */
  readFrom(read: () => Read<S> | Promise<Read<S>>): void;
}

interface HistogramOf<S> {
  observe(...args: [value: number, ...labels: Labels<S>]): void;
}

type Instrument<S extends MetricSpec> = S['name'] extends `${string}_total`
  ? CounterOf<S>
  : S extends { readonly buckets: readonly number[] }
    ? HistogramOf<S>
    : GaugeOf<S>;

/** What counts in a table's metrics. A name or a label that the table does not declare does not compile. */
export type Instruments<T extends MetricsTable> = { readonly [Name in keyof T]: Instrument<T[Name]> };

type LabelValues = Readonly<Record<string, string | undefined>>;

/**
 * Registers a metric.
 * @param labelNames those of its labels that are exported
 */
export function instrumentOf(spec: MetricSpec, labelNames: readonly string[], registry: Registry): object {
  const { name, help, labels, buckets } = spec;
  const config = { name, help, labelNames: [...labelNames], registers: [registry] };
  const isCounter = name.endsWith('_total');
  if (
    (isCounter && buckets !== undefined) ||
    (spec.acrossWorkers !== undefined && (isCounter || buckets !== undefined))
  ) {
    throw new Error(`${name}: only a gauge takes acrossWorkers, and a counter has no buckets`);
  }
  if (isCounter) {
    const counter = new Counter(config);
    return labels === undefined
      ? { inc: (by = 1) => counter.inc(by) }
      : { inc: (values: LabelValues, by = 1) => counter.inc(pick(labelNames, values), by) };
  }
  if (buckets !== undefined) {
    const histogram = new Histogram({ ...config, buckets: [...buckets] });
    return {
      observe: (value: number, values: LabelValues = {}) =>
        histogram.observe(pick(labelNames, values), value),
    };
  }
  const gauge = new Gauge({ ...config, aggregator: spec.acrossWorkers ?? 'sum' });
  const replace = (series: readonly (readonly [value: number, values: LabelValues])[]): void => {
    gauge.reset();
    series.forEach(([value, values]) => gauge.set(pick(labelNames, values), value));
  };
  const take = (found: number | Parameters<typeof replace>[0]): void =>
    typeof found === 'number' ? gauge.set(found) : replace(found);
  return {
    set: (value: number, values: LabelValues = {}) => gauge.set(pick(labelNames, values), value),
    replace,
    readFrom: (read: () => Parameters<typeof take>[0] | Promise<Parameters<typeof take>[0]>) => {
      Object.assign(gauge, { collect: async () => take(await read()) });
    },
  };
}

/** A blank label value becomes `UNKNOWN`, as existing dashboards expect. */
function pick(names: readonly string[], values: LabelValues): Record<string, string> {
  const result: Record<string, string> = {};
  for (const name of names) {
    const value = values[name];
    result[name] = value === undefined || value === '' ? 'UNKNOWN' : value;
  }
  return result;
}
