import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { SERVER_OPTIONS } from './fastify.js';
import { withholdOperatorsPlane } from './operators-plane.js';
import { answerRaw, answerUncommon } from './raw-answers.js';

/** How long a closing server still accepts requests on open connections. */
const LINGER_MS = 1000;
const IDLE_CHECK_MS = 50;

/** A port could not be opened. The message is one line for the operator. */
export class ListenError extends Error {
  override readonly name = 'ListenError';
}

export interface Listeners {
  readonly port: number;
  readonly adminPort?: number;
  /** Stops accepting connections and resolves after the last request in flight. After the grace, connections are closed. */
  close(graceMs: number): Promise<void>;
}

export interface Ports {
  readonly host: string;
  readonly port: number;
  readonly adminPort?: number | undefined;
}

/**
 * Serves the application on PORT. If ADMIN_PORT is set, it serves the whole application, and PORT no longer has the operators' plane.
 * @throws ListenError
 */
export async function listen(
  app: NestFastifyApplication,
  { host, port, adminPort }: Ports,
): Promise<Listeners> {
  const main = app.getHttpServer();
  if (adminPort !== undefined) {
    withholdOperatorsPlane(main);
  }
  await app.listen(port, host).catch((error: unknown) => {
    throw explainListen(error, 'PORT', port, host);
  });
  const servers = [main];
  if (adminPort !== undefined) {
    const second = createSecondServer(app, main);
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

function createSecondServer(app: NestFastifyApplication, main: Server): Server {
  const fastify = app.getHttpAdapter().getInstance();
  const server = createServer(SERVER_OPTIONS, (request, response) => {
    fastify.routing(request, response);
  });
  server.keepAliveTimeout = main.keepAliveTimeout;
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
 * A client may be sending a request on a connection that looks idle here. If the connection closed, the client could not know whether
 * the request was executed. So idle connections stay open for a while, and requests that arrive are answered with `Connection: close`.
 * Then idle connections are closed until none is left. `http.Server.close` would close them at once, so this calls `net.Server.close`.
 */
async function closeOne(server: Server): Promise<void> {
  if (!server.listening) {
    return;
  }
  closeAfterNext(server);
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

/**
 * Lets the response to the next request on each connection be its last. What is pipelined behind that request is not executed, because it
 * could not be answered (RFC 9112, section 9.6).
 */
function closeAfterNext(server: Server): void {
  const closing = new WeakSet<Socket>();
  const listeners = server.listeners('request');
  server.removeAllListeners('request');
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    if (closing.has(request.socket)) {
      return;
    }
    closing.add(request.socket);
    response.shouldKeepAlive = false;
    for (const listener of listeners) {
      listener.call(server, request, response);
    }
  });
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

function explainListen(error: unknown, variable: string, port: number, host: string): Error {
  const code = (error as NodeJS.ErrnoException).code;
  switch (code) {
    case 'EADDRINUSE':
      return new ListenError(
        `${variable} ${port} on ${host} is already in use; set ${variable} to a free port`,
        { cause: error },
      );
    case 'EACCES':
      return new ListenError(
        `this user may not open ${variable} ${port}; set ${variable} to a port above 1023`,
        { cause: error },
      );
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new ListenError(
        `HOST ${host} is not an address of this machine; set HOST to one that is, or to 0.0.0.0`,
        { cause: error },
      );
    default:
      return error instanceof Error ? error : new Error(String(error));
  }
}
