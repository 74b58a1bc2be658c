import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  type Span as ApiSpan,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  type IdGenerator,
  ParentBasedSampler,
  RandomIdGenerator,
  type ReadableSpan,
  type SpanExporter,
  type SpanProcessor,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { HOLDFAST_VERSION } from '../../config/index.js';
import type { Logger } from '../logger.js';
import type { Span, SpanAttributes, SpanBackend, SpanOptions, SpanOrigin } from './tracing.js';

/** Spans that wait for the collector or are on the way to it. More are dropped. */
const MOST_PENDING = 2048;
const BATCH_SIZE = 512;
const BATCH_DELAY_MS = 250;
/** For one batch, retries included. */
const EXPORT_TIMEOUT_MS = 3000;
/** How long a shutdown waits for the collector. */
const CLOSE_TIMEOUT_MS = 1000;
const SAMPLED = 1;

export interface OpenTelemetryOptions {
  /** Base URL of the collector; spans go to `/v1/traces` below it. */
  readonly endpoint: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
  /** Share of the traces that start here, 0 to 1. A trace that a client started follows the client's flag. */
  readonly share: number;
}

export type SpanOutcome = 'exported' | 'failed' | 'dropped';

/** Sends spans in batches, as JSON over HTTP. @param counted called with the number of spans that met each end */
export function openTelemetry(
  { endpoint, headers, serviceName, share }: OpenTelemetryOptions,
  logger: Logger,
  counted: (outcome: SpanOutcome, spans: number) => void,
): SpanBackend {
  const exporter = new OTLPTraceExporter({
    url: `${endpoint.href.replace(/\/$/, '')}/v1/traces`,
    headers: { ...headers },
    timeoutMillis: EXPORT_TIMEOUT_MS,
  });
  const processor = new CountedProcessor(exporter, logger, counted);
  const ids = new ChosenIds();
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ 'service.name': serviceName, 'service.version': HOLDFAST_VERSION }),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(share) }),
    idGenerator: ids,
    spanProcessors: [processor],
  });
  return new OpenTelemetryBackend(provider.getTracer('holdfast', HOLDFAST_VERSION), ids, () =>
    provider.shutdown(),
  );
}

/** Random ids, except those that are set for the next span. */
class ChosenIds implements IdGenerator {
  traceId: string | undefined;
  spanId: string | undefined;
  private readonly random = new RandomIdGenerator();

  generateTraceId(): string {
    return this.traceId ?? this.random.generateTraceId();
  }

  generateSpanId(): string {
    return this.spanId ?? this.random.generateSpanId();
  }
}

class OpenTelemetrySpan implements Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly flags: string;
  readonly context: Context;

  constructor(
    private readonly span: ApiSpan,
    parent: Context,
  ) {
    const { traceId, spanId, traceFlags } = span.spanContext();
    this.traceId = traceId;
    this.spanId = spanId;
    this.flags = (traceFlags & SAMPLED) === 0 ? '00' : '01';
    this.context = trace.setSpan(parent, span);
  }

  set(attributes: SpanAttributes): void {
    this.span.setAttributes(given(attributes));
  }

  fail(type: string): void {
    this.span.setAttribute('error.type', type);
    this.span.setStatus({ code: SpanStatusCode.ERROR });
  }

  end(): void {
    this.span.end();
  }
}

/** One per process, see `Queries`. */
const RUNNING = new AsyncLocalStorage<Span>();

class OpenTelemetryBackend implements SpanBackend {
  constructor(
    private readonly tracer: Tracer,
    private readonly ids: ChosenIds,
    private readonly shutdown: () => Promise<void>,
  ) {}

  current(): Span | undefined {
    return RUNNING.getStore();
  }

  within<T>(span: Span, work: () => T): T {
    return RUNNING.run(span, work);
  }

  start(name: string, { kind, attributes = {} }: SpanOptions, from: Span | SpanOrigin): Span {
    const parent = from instanceof OpenTelemetrySpan ? from.context : contextOf(from);
    const { ids } = this;
    ids.traceId = from.traceId;
    ids.spanId = from instanceof OpenTelemetrySpan ? undefined : from.spanId;
    try {
      const kinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT, undefined: SpanKind.INTERNAL };
      const options = { kind: kinds[`${kind}`], attributes: given(attributes) };
      return new OpenTelemetrySpan(this.tracer.startSpan(name, options, parent), parent);
    } finally {
      ids.traceId = undefined;
      ids.spanId = undefined;
    }
  }

  async close(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const waited = new Promise<void>((done) => {
      timer = setTimeout(done, CLOSE_TIMEOUT_MS);
    });
    await Promise.race([this.shutdown().catch(() => undefined), waited]);
    clearTimeout(timer);
  }
}

/** The context of a parent in another process, if there is one. */
function contextOf({ traceId, parentId, flags }: SpanOrigin): Context {
  return parentId === undefined
    ? ROOT_CONTEXT
    : trace.setSpanContext(ROOT_CONTEXT, {
        traceId,
        spanId: parentId,
        traceFlags: Number.parseInt(flags, 16) & SAMPLED,
        isRemote: true,
      });
}

function given(attributes: SpanAttributes): Attributes {
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined));
}

/** Batches spans, counts what becomes of each, and logs when the collector goes away and when it is back. */
class CountedProcessor implements SpanProcessor {
  private readonly batches: BatchSpanProcessor;
  private pending = 0;
  private isFailing = false;

  constructor(
    exporter: SpanExporter,
    private readonly logger: Logger,
    private readonly counted: (outcome: SpanOutcome, spans: number) => void,
  ) {
    this.batches = new BatchSpanProcessor({
      exporter: {
        export: (spans, done) =>
          exporter.export(spans, (result) => {
            this.sent(spans.length, result.error);
            done(result);
          }),
        shutdown: () => exporter.shutdown(),
        forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
      },
      maxQueueSize: MOST_PENDING,
      maxExportBatchSize: BATCH_SIZE,
      scheduledDelayMillis: BATCH_DELAY_MS,
      exportTimeoutMillis: 2 * EXPORT_TIMEOUT_MS,
    });
  }

  onStart(): void {
    // Only whole spans are sent.
  }

  onEnd(span: ReadableSpan): void {
    // Beyond this, the batches would drop spans without a count.
    if (this.pending >= MOST_PENDING) {
      this.counted('dropped', 1);
      return;
    }
    this.pending += 1;
    this.batches.onEnd(span);
  }

  forceFlush(): Promise<void> {
    return this.batches.forceFlush();
  }

  shutdown(): Promise<void> {
    return this.batches.shutdown();
  }

  private sent(spans: number, error: Error | undefined): void {
    this.pending -= spans;
    this.counted(error === undefined ? 'exported' : 'failed', spans);
    if (error !== undefined && !this.isFailing) {
      this.logger.warn(
        { reason: error.name },
        'traces do not reach the collector; requests are not affected, and this is logged once',
      );
    } else if (error === undefined && this.isFailing) {
      this.logger.info('traces reach the collector again');
    }
    this.isFailing = error !== undefined;
  }
}
