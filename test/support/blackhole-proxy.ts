import { once } from 'node:events';
import { createServer, Socket, type AddressInfo, type Server } from 'node:net';

/** One connection through the proxy, in both directions. */
interface Pair {
  readonly near: Socket;
  readonly far: Socket;
  /** Whether a request has passed that contains the marker of `cutWhereSaid`. */
  said: boolean;
}

/** The direction in which bytes are held back. */
export type Darkness = 'both' | 'replies';

/**
 * A TCP proxy that can be interrupted like a network: nothing gets through, neither side is notified, and
 * what was sent meanwhile arrives after the repair, just as both kernels would retransmit it.
 */
export class BlackholeProxy {
  private readonly pairs = new Set<Pair>();
  private darkness: Darkness | undefined;
  private markers: readonly string[] = [];
  private trap: { readonly marker: string; readonly sprung: () => void } | undefined;

  private constructor(
    private readonly server: Server,
    private readonly target: { readonly host: string; readonly port: number },
  ) {}

  static async before(target: { readonly host: string; readonly port: number }): Promise<BlackholeProxy> {
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true });
    const proxy = new BlackholeProxy(server, target);
    server.on('connection', (near) => proxy.join(near));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return proxy;
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** Holds back everything from now on, or only the replies. */
  cut(darkness: Darkness): void {
    this.darkness = darkness;
    this.pairs.forEach((pair) => this.flow(pair));
  }

  /**
   * Cuts both directions just before a request that contains `marker` would pass. Resolves once that has
   * happened.
   */
  async cutBefore(marker: string): Promise<void> {
    await new Promise<void>((sprung) => {
      this.trap = { marker, sprung };
    });
  }

  /**
   * From now on, cuts both directions of each connection whose requests contain one of `markers`, such as a
   * client's name. Other connections are not affected.
   */
  cutWhereSaid(...markers: readonly string[]): void {
    this.markers = markers;
  }

  heal(): void {
    this.darkness = undefined;
    this.markers = [];
    this.pairs.forEach((pair) => this.flow(pair));
  }

  async close(): Promise<void> {
    for (const { near, far } of this.pairs) {
      near.destroy();
      far.destroy();
    }
    this.server.close();
    await once(this.server, 'close');
  }

  private join(near: Socket): void {
    const far = new Socket({ allowHalfOpen: true });
    const pair: Pair = { near, far, said: false };
    this.pairs.add(pair);
    const end = (): void => {
      this.pairs.delete(pair);
      near.destroy();
      far.destroy();
    };
    near
      .on('error', end)
      .on('close', end)
      .on('end', () => far.end());
    far
      .on('error', end)
      .on('close', end)
      .on('end', () => near.end());
    near.on('data', (chunk: Buffer) => this.forward(pair, chunk));
    far.on('data', (chunk: Buffer) => near.write(chunk));
    far.pause();
    far.connect(this.target);
    this.flow(pair);
  }

  private forward(pair: Pair, chunk: Buffer): void {
    if (this.markers.some((marker) => chunk.includes(marker))) {
      pair.said = true;
      this.flow(pair);
      pair.near.unshift(chunk);
      return;
    }
    if (this.trap !== undefined && chunk.includes(this.trap.marker)) {
      const { sprung } = this.trap;
      this.trap = undefined;
      this.cut('both');
      pair.near.unshift(chunk);
      sprung();
      return;
    }
    pair.far.write(chunk);
  }

  private flow({ near, far, said }: Pair): void {
    if (this.darkness === 'both' || (said && this.markers.length > 0)) {
      near.pause();
    } else {
      near.resume();
    }
    if (this.darkness === undefined && !(said && this.markers.length > 0)) {
      far.resume();
    } else {
      far.pause();
    }
  }
}
