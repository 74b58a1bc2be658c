import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer, type ServerOptions } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';

/** A request that an endpoint received. */
export interface Received {
  readonly method: string;
  readonly path: string;
  readonly httpVersion: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The number of the connection that it arrived on, counted from 1. */
  readonly connection: number;
}

export type Reaction = (response: ServerResponse, received: Received) => void;

/**
 * An endpoint on loopback that records the requests it receives, and answers 200 unless a test sets another
 * reaction.
 */
export class WebhookReceiver {
  readonly received: Received[] = [];
  /** Answers each request. */
  react: Reaction = (response) => response.writeHead(200).end();
  private readonly connections = new Map<Socket, number>();

  private constructor(
    private readonly server: Server,
    readonly url: string,
  ) {}

  static async start({
    tls,
    host = '127.0.0.1',
  }: { tls?: ServerOptions; host?: string } = {}): Promise<WebhookReceiver> {
    const server = tls === undefined ? createServer() : createTlsServer(tls);
    await new Promise<void>((resolve) => server.listen(0, host, resolve));
    const { port } = server.address() as AddressInfo;
    const receiver = new WebhookReceiver(
      server,
      `http${tls === undefined ? '' : 's'}://${host.includes(':') ? `[${host}]` : host}:${port}`,
    );
    server.on('connection', (socket: Socket) =>
      receiver.connections.set(socket, receiver.connections.size + 1),
    );
    server.on('request', (request: IncomingMessage, response: ServerResponse) =>
      receiver.take(request, response),
    );
    return receiver;
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  get connectionCount(): number {
    return this.connections.size;
  }

  /** How many connections are open on the server's side. */
  async openConnections(): Promise<number> {
    return new Promise((resolve, reject) =>
      this.server.getConnections((error, count) => (error === null ? resolve(count) : reject(error))),
    );
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private take(request: IncomingMessage, response: ServerResponse): void {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const received: Received = {
        method: request.method ?? '',
        path: request.url ?? '',
        httpVersion: request.httpVersion,
        headers: request.headers as Record<string, string>,
        body: Buffer.concat(chunks).toString('utf8'),
        connection: this.connections.get(request.socket) ?? 0,
      };
      this.received.push(received);
      this.react(response, received);
    });
  }
}
