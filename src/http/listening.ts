import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { answerRaw, answerUncommon, SERVER_OPTIONS } from './fastify.js';

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
export async function listen(app: NestFastifyApplication, { host, port, adminPort }: Ports): Promise<Listeners> {
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

/** A connection that is kept alive never ends by itself, so idle ones are closed until none is left. */
async function closeOne(server: Server): Promise<void> {
  if (!server.listening) {
    return;
  }
  const idle = setInterval(() => {
    server.closeIdleConnections();
  }, 50);
  try {
    await new Promise<void>((resolve) => {
      server.close(() => {
        resolve();
      });
      server.closeIdleConnections();
    });
  } finally {
    clearInterval(idle);
  }
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

function explainListen(error: unknown, variable: string, port: number, host: string): Error {
  const code = (error as NodeJS.ErrnoException).code;
  switch (code) {
    case 'EADDRINUSE':
      return new ListenError(`${variable} ${port} on ${host} is already in use; set ${variable} to a free one`, { cause: error });
    case 'EACCES':
      return new ListenError(`${variable} ${port} may not be opened by this user; set ${variable} to one above 1023`, { cause: error });
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new ListenError(`HOST ${host} is no address of this machine; set HOST to one that is, or to 0.0.0.0`, { cause: error });
    default:
      return error instanceof Error ? error : new Error(String(error));
  }
}
