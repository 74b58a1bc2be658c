import { eventually } from './eventually.js';
import { WebhookReceiver } from './webhook-receiver.js';

/** A span from OTLP's JSON, with attributes as plain values. */
export interface ReceivedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly failed: boolean;
}

interface OtlpSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[];
  readonly status: { readonly code?: number };
}

interface OtlpRequest {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[];
  }[];
}

const ERROR = 2;

/** A minimal collector on loopback that accepts OTLP over HTTP. */
export class TraceReceiver {
  private constructor(readonly http: WebhookReceiver) {}

  static async start(): Promise<TraceReceiver> {
    return new TraceReceiver(await WebhookReceiver.start());
  }

  get url(): string {
    return this.http.url;
  }

  get spans(): ReceivedSpan[] {
    return this.http.received.flatMap(({ body }) =>
      (JSON.parse(body) as OtlpRequest).resourceSpans.flatMap(({ scopeSpans }) =>
        scopeSpans.flatMap(({ spans }) => spans.map(plain)),
      ),
    );
  }

  /** Waits for the first span that satisfies `fits`. */
  span(what: string, fits: (span: ReceivedSpan) => boolean): Promise<ReceivedSpan> {
    return eventually(what, () => this.spans.find(fits));
  }

  childrenOf(parent: ReceivedSpan): ReceivedSpan[] {
    return this.spans.filter(
      ({ traceId, parentSpanId }) => traceId === parent.traceId && parentSpanId === parent.spanId,
    );
  }

  stop(): Promise<void> {
    return this.http.stop();
  }
}

function plain({ name, traceId, spanId, parentSpanId, attributes, status }: OtlpSpan): ReceivedSpan {
  return {
    name,
    traceId,
    spanId,
    parentSpanId: parentSpanId === '' ? undefined : parentSpanId,
    attributes: Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]])),
    failed: status.code === ERROR,
  };
}
