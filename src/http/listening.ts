import { createServer, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, Server as NetServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { answerRaw, answerUncommon, SERVER_OPTIONS } from './fastify.js';

/** How long a closing server waits for requests that are on their way over connections it has. */
const LINGER_MS = 1000;
const IDLE_CHECK_MS = 50;

/** A port that could not be opened, in one line for the operator. */
export class ListenError extends Error {
  override readonly name = 'ListenError';
}

export interface Listeners {
  readonly port: number;
  readonly adminPort?: number;
  /** Stops accepting on every port and resolves when the last request in flight is answered. Beyond the grace, connections are cut. */
  close(graceMs: number): Promise<void>;
}

export interface Ports {
  readonly host: string;
  readonly port: number;
  readonly adminPort?: number | undefined;
}

/**
 * Opens PORT and, when it is set, ADMIN_PORT: the same application on both, for deployments that know two servers.
 * @throws ListenError in one line when a port cannot be opened.
 */
export async function listen(
  app: NestFastifyApplication,
  { host, port, adminPort }: Ports,
): Promise<Listeners> {
  const main = app.getHttpServer();
  await app.listen(port, host).catch((error: unknown) => {
    throw explainListen(error, 'PORT', port, host);
  });
  const servers = [main];
  if (adminPort !== undefined) {
    const second = secondServer(app, main);
    await open(second, adminPort, host).catch((error: unknown) => {
      throw explainListen(error, 'ADMIN_PORT', adminPort, host);
    });
    servers.push(second);
  }
  const second = servers[1];
  return {
    port: portOf(main),
    ...(second === undefined ? {} : { adminPort: portOf(second) }),
    close: (graceMs) => closeAll(servers, graceMs),
  };
}

function secondServer(app: NestFastifyApplication, main: Server): Server {
  const fastify = app.getHttpAdapter().getInstance();
  const server = createServer(SERVER_OPTIONS, (request, response) => {
    fastify.routing(request, response);
  });
  server.keepAliveTimeout = main.keepAliveTimeout;
  server.requestTimeout = main.requestTimeout;
  server.on('clientError', answerRaw);
  answerUncommon(server);
  return server;
}

function open(server: Server, port: number, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

async function closeAll(servers: readonly Server[], graceMs: number): Promise<void> {
  const cut = setTimeout(() => {
    for (const server of servers) {
      server.closeAllConnections();
    }
  }, graceMs);
  try {
    await Promise.all(servers.map(closeOne));
  } finally {
    clearTimeout(cut);
  }
}

/**
 * A client may be sending its next request over a connection that looks idle here, and cannot know whether one that meets the
 * end of its connection was carried out. So connections stay for a while: what still comes is answered, and told with
 * `Connection: close` to go elsewhere next. One that is kept alive never ends by itself, so then the idle ones are closed until
 * none is left. `http.Server.close` would close them at once, hence the `close` that it is built on.
 */
async function closeOne(server: Server): Promise<void> {
  if (!server.listening) {
    return;
  }
  server.prependListener('request', (_request, response: ServerResponse) => {
    response.setHeader('connection', 'close');
  });
  let isClosed = false;
  const closed = new Promise<void>((resolve) => {
    NetServer.prototype.close.call(server, () => {
      isClosed = true;
      resolve();
    });
  });
  await Promise.race([closed, delay(LINGER_MS, undefined, { ref: false })]);
  while (!isClosed) {
    server.closeIdleConnections();
    await Promise.race([closed, delay(IDLE_CHECK_MS)]);
  }
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

function explainListen(error: unknown, variable: string, port: number, host: string): Error {
  const code = (error as NodeJS.ErrnoException).code;
  switch (code) {
    case 'EADDRINUSE':
      return new ListenError(
        `${variable} ${port} on ${host} is already in use; set ${variable} to a free one`,
        { cause: error },
      );
    case 'EACCES':
      return new ListenError(
        `${variable} ${port} may not be opened by this user; set ${variable} to one above 1023`,
        { cause: error },
      );
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new ListenError(
        `HOST ${host} is no address of this machine; set HOST to one that is, or to 0.0.0.0`,
        { cause: error },
      );
    default:
      return error instanceof Error ? error : new Error(String(error));
  }
}
