import { Injectable, type OnApplicationShutdown } from '@nestjs/common';

export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** A piece of work in a trace. Ends once; what is set after that is ignored. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  /** The flags of a `traceparent`: `01` if the span is recorded, else `00`. */
  readonly flags: string;
  set(attributes: SpanAttributes): void;
  /** @param type from a small set, never a message: messages may quote what a client sent */
  fail(type: string): void;
  end(): void;
}

/** The trace that a span without a parent in this process belongs to. */
export interface SpanOrigin {
  /** 32 hex digits. Without a parent, the span is the first of this trace. */
  readonly traceId: string;
  /** 16 hex digits. */
  readonly parentId?: string | undefined;
  /** They say whether the trace is recorded, which whoever started it has decided. */
  readonly flags: string;
  /** 16 hex digits, by which another process knows the span. Random if not given. */
  readonly spanId?: string | undefined;
}

export interface SpanOptions {
  readonly kind?: 'server' | 'client';
  readonly attributes?: SpanAttributes;
}

/** Makes spans and sends them somewhere. */
export interface SpanBackend {
  /** The span that the calling code runs in. */
  current(): Span | undefined;
  start(name: string, options: SpanOptions, from: Span | SpanOrigin): Span;
  within<T>(span: Span, work: () => T): T;
  /** Sends what is left, for a bounded time. Never rejects. */
  close(): Promise<void>;
}

/**
 * Traces of requests, scripts, sweeps and deliveries. Off without a backend: every method then does nothing, and no package of
 * OpenTelemetry is loaded.
 */
@Injectable()
export class Tracing implements OnApplicationShutdown {
  constructor(private readonly backend?: SpanBackend) {}

  get isOn(): boolean {
    return this.backend !== undefined;
  }

  /** Starts the first span of this process in a trace. Undefined if the process that started the trace does not record it. */
  start(name: string, origin: SpanOrigin, options: SpanOptions = {}): Span | undefined {
    const isDeclined = origin.parentId === undefined && !isSampled(origin.flags);
    return isDeclined ? undefined : this.backend?.start(name, options, origin);
  }

  /** Starts a child of the current span. Undefined without one that is recorded: idle work in the background has no trace. */
  child(name: string, options: SpanOptions = {}): Span | undefined {
    const parent = this.backend?.current();
    return parent !== undefined && isSampled(parent.flags)
      ? this.backend?.start(name, options, parent)
      : undefined;
  }

  /** Runs work, and everything that it starts, in a span. */
  within<T>(span: Span | undefined, work: () => T): T {
    return span === undefined || this.backend === undefined ? work() : this.backend.within(span, work);
  }

  /** Runs work in a span that ends with it. */
  async during<T>(span: Span | undefined, work: () => Promise<T>): Promise<T> {
    if (span === undefined) {
      return work();
    }
    try {
      return await this.within(span, work);
    } catch (error) {
      span.fail(error instanceof Error ? error.name : 'unknown');
      throw error;
    } finally {
      span.end();
    }
  }

  async onApplicationShutdown(): Promise<void> {
    await this.backend?.close();
  }
}

const SAMPLED = 1;

function isSampled(flags: string): boolean {
  return (Number.parseInt(flags, 16) & SAMPLED) === SAMPLED;
}

const SPAN_ID_LENGTH = 16;

/**
 * The id of the span of a request or a sweep. It can be derived from the request's id or the sweep's trace id. So the delivery of an
 * event finds its parent, although the event log has no span ids.
 */
export function spanIdFrom(id: string): string {
  const digits = id.slice(id.indexOf('_') + 1);
  return digits.slice(0, SPAN_ID_LENGTH);
}
