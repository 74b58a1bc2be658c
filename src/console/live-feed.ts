import { PassThrough } from 'node:stream';
import { Injectable } from '@nestjs/common';
import { OperatorKeys } from '../auth/index.js';
import { MetricsRegistry, ShutdownState } from '../telemetry/index.js';
import { stringifyJson } from '../wire/index.js';
import { LiveFigures } from './live-figures.js';
import { CONSOLE_METRICS } from './console.metrics.js';

const EVERY_MS = 1000;
/** A viewer that has not read this much is too slow: it gets the next snapshot after it has. */
const MAX_UNREAD_BYTES = 262_144;

interface Viewer {
  readonly sessionId: string;
  readonly stream: PassThrough;
  readonly isLive: () => Promise<boolean>;
}

/**
 * The live figures as server-sent events: one snapshot a second for all viewers of this instance, computed once. Without viewers there
 * is no timer. A stream ends within a second after its session or its operator's key, on every instance.
 */
@Injectable()
export class LiveFeed {
  private readonly viewers = new Set<Viewer>();
  private readonly counts = this.metrics.of(CONSOLE_METRICS);
  private timer: NodeJS.Timeout | undefined;
  private latest: string | undefined;
  private isComputing = false;
  private isClosed = false;

  constructor(
    private readonly figures: LiveFigures,
    private readonly metrics: MetricsRegistry,
    shutdown: ShutdownState,
    operators: OperatorKeys,
  ) {
    this.counts.viewers.readFrom(() => this.viewers.size);
    operators.onChange(() => this.viewers.forEach((viewer) => this.checkSession(viewer)));
    shutdown.onShutdown(() => {
      this.isClosed = true;
      this.viewers.forEach((viewer) => this.leave(viewer, 'shutdown'));
    });
  }

  /** @param session isLive tells whether it has not been ended elsewhere; if it rejects, that is unknown */
  follow(session: { id: string; expiresInMs: number; isLive: () => Promise<boolean> }): PassThrough {
    const stream = new PassThrough();
    const viewer = { sessionId: session.id, stream, isLive: session.isLive };
    const ended = setTimeout(() => this.leave(viewer, 'session'), session.expiresInMs).unref();
    stream.once('close', () => {
      clearTimeout(ended);
      this.remove(viewer);
    });
    stream.write('retry: 2000\n\n');
    if (this.isClosed) {
      stream.end();
      return stream;
    }
    this.viewers.add(viewer);
    if (this.latest !== undefined) {
      stream.write(this.latest);
    }
    if (this.timer === undefined) {
      this.timer = setInterval(() => void this.tick(), EVERY_MS);
      void this.tick();
    }
    return stream;
  }

  endSession(sessionId: string): void {
    for (const viewer of this.viewers) {
      if (viewer.sessionId === sessionId) {
        this.leave(viewer, 'session');
      }
    }
  }

  private async tick(): Promise<void> {
    if (this.isComputing) {
      return;
    }
    this.isComputing = true;
    try {
      const snapshot = `data: ${stringifyJson(await this.figures.compute())}\n\n`;
      this.counts.snapshots.inc();
      // If the last viewer has left meanwhile, it would be out of date for the next one, however late that one comes.
      this.latest = this.viewers.size === 0 ? undefined : snapshot;
    } finally {
      this.isComputing = false;
    }
    for (const viewer of this.viewers) {
      if (viewer.stream.writableLength < MAX_UNREAD_BYTES) {
        viewer.stream.write(this.latest);
      }
      this.checkSession(viewer);
    }
  }

  /** Each second, because a key may expire, and a session may be ended elsewhere. */
  private checkSession(viewer: Viewer): void {
    viewer.isLive().then(
      (isLive) => {
        if (!isLive) {
          this.leave(viewer, 'session');
        }
      },
      // Redis is away, which the snapshots say. The next check follows.
      () => undefined,
    );
  }

  /** Says why, so that the page logs out or reconnects, and ends the response. */
  private leave(viewer: Viewer, why: 'session' | 'shutdown'): void {
    this.remove(viewer);
    viewer.stream.end(`event: ended\ndata: ${why}\n\n`);
  }

  private remove(viewer: Viewer): void {
    this.viewers.delete(viewer);
    if (this.viewers.size === 0) {
      clearInterval(this.timer);
      this.timer = undefined;
      this.latest = undefined;
      this.figures.reset();
    }
  }
}
