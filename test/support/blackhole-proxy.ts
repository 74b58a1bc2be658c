import { once } from 'node:events';
import { createServer, Socket, type AddressInfo, type Server } from 'node:net';

/** One connection through the proxy, in both directions. */
interface Pair {
  readonly near: Socket;
  readonly far: Socket;
}

/** Which way bytes do not come through. */
export type Darkness = 'both' | 'replies';

/**
 * A TCP path to a server that can be interrupted as networks are: nothing comes through, nobody is told, and what was sent
 * meanwhile arrives when the path is whole again, as the kernels on both sides would send it once more.
 */
export class BlackholeProxy {
  private readonly pairs = new Set<Pair>();
  private darkness: Darkness | undefined;
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

  /** From now on nothing comes through, or no replies. */
  cut(darkness: Darkness): void {
    this.darkness = darkness;
    this.pairs.forEach((pair) => this.flow(pair));
  }

  /** Cuts both ways just before a request that contains `marker` would come through. Resolves when that has happened. */
  async cutBefore(marker: string): Promise<void> {
    await new Promise<void>((sprung) => {
      this.trap = { marker, sprung };
    });
  }

  heal(): void {
    this.darkness = undefined;
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
    const pair = { near, far };
    this.pairs.add(pair);
    const end = (): void => {
      this.pairs.delete(pair);
      near.destroy();
      far.destroy();
    };
    near.on('error', end).on('close', end).on('end', () => far.end());
    far.on('error', end).on('close', end).on('end', () => near.end());
    near.on('data', (chunk: Buffer) => this.forward(pair, chunk));
    far.on('data', (chunk: Buffer) => near.write(chunk));
    far.pause();
    far.connect(this.target);
    this.flow(pair);
  }

  private forward(pair: Pair, chunk: Buffer): void {
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

  private flow({ near, far }: Pair): void {
    if (this.darkness === 'both') {
      near.pause();
    } else {
      near.resume();
    }
    if (this.darkness === undefined) {
      far.resume();
    } else {
      far.pause();
    }
  }
}
