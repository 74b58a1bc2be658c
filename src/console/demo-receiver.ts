import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ExpectedSecret } from '../config/index.js';

/** What the endpoint was sent, as far as the demonstration shows it. */
export interface Arrival {
  readonly eventId: string;
  readonly eventType: string;
  readonly reservationId: string;
  /** Between the event's own time and its arrival. */
  readonly delay_ms: number;
  /** Whether both signatures are those of the subscription's secret. */
  readonly verified: boolean;
}

/** A webhook endpoint on loopback, as small as they come: it verifies what it is sent, answers 204, and remembers it. */
export class DemoReceiver {
  /** The subscription's; set once there is one. */
  secret = '';
  readonly arrivals: Arrival[] = [];

  private constructor(
    private readonly server: Server,
    readonly url: string,
  ) {}

  static async start(): Promise<DemoReceiver> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const receiver = new DemoReceiver(
      server,
      `http://127.0.0.1:${(server.address() as AddressInfo).port}/expired`,
    );
    server.on('request', (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        receiver.take(Buffer.concat(chunks).toString('utf8'), request.headers);
        response.writeHead(204).end();
      });
    });
    return receiver;
  }

  stop(): void {
    this.server.close();
    this.server.closeAllConnections();
  }

  private take(body: string, headers: IncomingHttpHeaders): void {
    const {
      event_id: eventId,
      event_type: eventType,
      timestamp,
      data,
    } = JSON.parse(body) as {
      event_id: string;
      event_type: string;
      timestamp: string;
      data: { reservation_id?: string };
    };
    const delay_ms = Math.max(0, new Date().getTime() - Date.parse(timestamp));
    this.arrivals.push({
      eventId,
      eventType,
      reservationId: data.reservation_id ?? '',
      delay_ms,
      verified: this.verify(body, headers),
    });
  }

  /** As any receiver would: with the secret, the exact bytes and nothing of Holdfast's. */
  private verify(body: string, headers: IncomingHttpHeaders): boolean {
    const protocol = `sha256=${createHmac('sha256', this.secret).update(body).digest('hex')}`;
    const signed = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${body}`;
    const standard = `v1,${createHmac('sha256', Buffer.from(this.secret.slice('whsec_'.length), 'base64'))
      .update(signed)
      .digest('base64')}`;
    return same(headers['x-cycles-signature'], protocol) && same(headers['webhook-signature'], standard);
  }
}

function same(given: string | string[] | undefined, expected: string): boolean {
  return typeof given === 'string' && new ExpectedSecret(expected).matches(given);
}
