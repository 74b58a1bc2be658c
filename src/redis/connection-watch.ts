import { Cluster, type Redis } from 'ioredis';
import type { Logger } from '../telemetry/index.js';
import type { RedisCounts } from './redis.metrics.js';

const WHOLE_STORE = 'redis';

/** Takes both ends of an outage, by performance.now(). */
export type OutageListener = (lostAt: number, restoredAt: number) => void;

/**
 * Listens to a client, so that no 'error' event is unhandled. Logs and counts each outage only twice: when the connection is lost, and
 * when it is back.
 */
export class ConnectionWatch {
  /** What is disconnected, and since when by performance.now(). */
  private readonly lost = new Map<string, number>();
  private readonly outageListeners: OutageListener[] = [];
  private closing = false;
  private wasReady = false;
  private latestError: string | undefined;

  constructor(
    private readonly client: Redis | Cluster,
    private readonly logger: Logger,
    private readonly counts: Pick<RedisCounts, 'connectionLost' | 'connectionRestored'>,
    /** The name of the connection in log lines. */
    private readonly connection = 'the connection to Redis',
  ) {
    client.on('error', (error: Error) => {
      this.latestError = messageOf(error);
    });
    client.on('ready', () => {
      this.wasReady = true;
      this.connectionRestored(WHOLE_STORE);
    });
    client.on('close', () => {
      if (this.wasReady) {
        this.connectionLost(WHOLE_STORE);
      }
    });
    if (client instanceof Cluster) {
      this.watchNodes(client);
    }
  }

  /** For the message of a failed start. */
  get lastError(): string | undefined {
    return this.latestError;
  }

  /** What is disconnected now: `redis` as a whole, or single nodes of a cluster. */
  get disconnected(): readonly string[] {
    return [...this.lost.keys()];
  }

  /** Calls the listener each time the whole store is back. */
  onOutage(listener: OutageListener): void {
    this.outageListeners.push(listener);
  }

  /** From now on, closed connections are intended. */
  stop(): void {
    this.closing = true;
  }

  private watchNodes(cluster: Cluster): void {
    const watched = new WeakSet<Redis>();
    cluster.on('node error', (error: Error, node: string) => {
      this.latestError = `${node}: ${messageOf(error)}`;
    });
    cluster.on('+node', (node: Redis) => {
      const name = `${node.options.host ?? ''}:${node.options.port ?? ''}`;
      if (!watched.has(node)) {
        watched.add(node);
        node.on('ready', () => this.connectionRestored(name));
        // The client itself disconnects from nodes that serve no slots.
        node.on('close', () => {
          if (servesSlots(cluster, name)) {
            this.connectionLost(name);
          }
        });
      }
    });
    cluster.on('refresh', () => {
      for (const name of this.lost.keys()) {
        if (name !== WHOLE_STORE && !servesSlots(cluster, name)) {
          this.lost.delete(name);
          this.logger.info({ node: name }, 'a lost node no longer serves slots of the cluster');
        }
      }
    });
  }

  private connectionLost(name: string): void {
    if (this.closing || this.lost.has(name)) {
      return;
    }
    this.lost.set(name, performance.now());
    this.counts.connectionLost.inc();
    this.logger.warn({ node: name, reason: this.latestError }, `lost ${this.connection}; reconnecting`);
  }

  private connectionRestored(name: string): void {
    const lostAt = this.lost.get(name);
    if (lostAt === undefined) {
      return;
    }
    this.lost.delete(name);
    this.counts.connectionRestored.inc();
    const restoredAt = performance.now();
    // A warning, as the loss is: who reads of the one must read of the other.
    this.logger.warn(
      { node: name, lasted_ms: Math.round(restoredAt - lostAt) },
      `${this.connection} is back`,
    );
    if (name === WHOLE_STORE) {
      for (const listener of this.outageListeners) {
        listener(lostAt, restoredAt);
      }
    }
  }
}

function servesSlots(cluster: Cluster, name: string): boolean {
  return cluster.slots.some((nodes) => nodes.includes(name));
}

function messageOf(error: Error): string {
  const inner = (error as { lastNodeError?: Error }).lastNodeError;
  const text = error.message === '' ? ((error as NodeJS.ErrnoException).code ?? error.name) : error.message;
  return inner === undefined ? text : `${text} (${inner.message})`;
}
