import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import { type AddressInfo, BlockList } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ExpectedSecret } from '../config/index.js';
import { Api, DemoError } from './api.js';
import { TENANT } from './demo-ledger.js';

/** A delivery that the endpoint received. */
export interface ReceivedDelivery {
  readonly eventId: string;
  readonly eventType: string;
  readonly reservationId: string;
  /** Between the event's own time and its arrival. */
  readonly delay_ms: number;
  /** Whether both signatures are those of the subscription's secret. */
  readonly verified: boolean;
}

/** A minimal webhook endpoint on loopback. It verifies and records each delivery and responds with 204. */
export class DemoReceiver {
  /** The subscription's; set once there is one. */
  secret = '';
  readonly arrivals: ReceivedDelivery[] = [];

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
        receiver.record(Buffer.concat(chunks).toString('utf8'), request.headers);
        response.writeHead(204).end();
      });
    });
    return receiver;
  }

  stop(): void {
    this.server.close();
    this.server.closeAllConnections();
  }

  private record(body: string, headers: IncomingHttpHeaders): void {
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
    // eslint-disable-next-line no-restricted-syntax -- a receiver has only its own clock
    const delay_ms = Math.max(0, new Date().getTime() - Date.parse(timestamp));
    this.arrivals.push({
      eventId,
      eventType,
      reservationId: data.reservation_id ?? '',
      delay_ms,
      verified: this.verify(body, headers),
    });
  }

  /** Verifies both signatures as any receiver would, without code of Holdfast. */
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

const SECURITY = '/v1/admin/config/webhook-security';
const WEBHOOKS = '/v1/admin/webhooks';
/** The name of the subscription, by which one that an interrupted run left behind is found. */
const NAME = 'npm run up';
const LOOPBACK = '127.0.0.1';
const ARRIVAL_TIMEOUT_MS = 10_000;
const POLL_MS = 20;

interface SecurityConfig {
  readonly blocked_cidr_ranges: readonly string[];
  readonly allowed_url_patterns: readonly string[];
  readonly allow_http: boolean;
}

export interface DemoWebhookOptions {
  readonly baseUrl: string;
  readonly adminKey: string;
  /** Where the previous webhook security configuration is stored until it is restored. */
  readonly dataDir: string;
}

/**
 * A subscription of the demo tenant to `reservation.expired`, with an endpoint on loopback. While it is open, the webhook security
 * configuration allows the URL of the endpoint. `close` deletes the subscription and restores the configuration.
 */
export class DemoWebhook {
  private constructor(
    private readonly admin: Api,
    private readonly receiver: DemoReceiver,
    private readonly keptFile: string,
  ) {}

  /** @throws DemoError */
  static async open({ baseUrl, adminKey, dataDir }: DemoWebhookOptions): Promise<DemoWebhook> {
    const admin = new Api(baseUrl, { 'X-Admin-API-Key': adminKey });
    const webhook = new DemoWebhook(
      admin,
      await DemoReceiver.start(),
      join(dataDir, 'demo-webhook-security.json'),
    );
    try {
      await webhook.subscribe();
    } catch (error) {
      await webhook.close();
      throw error;
    }
    return webhook;
  }

  get url(): string {
    return this.receiver.url;
  }

  /** Waits for the event of this reservation's expiry. @throws DemoError if it does not arrive or is not signed correctly */
  async arrivalOf(reservationId: string): Promise<ReceivedDelivery> {
    const giveUp = performance.now() + ARRIVAL_TIMEOUT_MS;
    for (;;) {
      const arrival = this.receiver.arrivals.find((candidate) => candidate.reservationId === reservationId);
      if (arrival !== undefined) {
        if (arrival.eventType !== 'reservation.expired' || !arrival.verified) {
          throw new DemoError(
            `webhook: expected a signed reservation.expired, got ${arrival.eventType}, ${arrival.verified ? 'signed' : 'whose signature is wrong'}`,
          );
        }
        return arrival;
      }
      if (performance.now() > giveUp) {
        throw new DemoError(
          `webhook: no event arrived within ${ARRIVAL_TIMEOUT_MS} ms; does the role \`dispatcher\` run?`,
        );
      }
      await delay(POLL_MS);
    }
  }

  /** Cleans up. If the service is unreachable, the next run does it. */
  async close(): Promise<void> {
    this.receiver.stop();
    try {
      await this.cleanUp();
    } catch (error) {
      if (!(error instanceof DemoError)) {
        throw error;
      }
    }
  }

  private async subscribe(): Promise<void> {
    await this.cleanUp();
    const { body } = await this.admin.expect('the webhook security configuration', [200], 'GET', SECURITY);
    const before = body as unknown as SecurityConfig;
    this.keep(before);
    await this.admin.expect('the webhook security configuration', [200], 'PUT', SECURITY, {
      blocked_cidr_ranges: before.blocked_cidr_ranges.filter((range) => !holdsLoopback(range)),
      allowed_url_patterns: [...before.allowed_url_patterns, this.receiver.url],
      allow_http: true,
    });
    const request = { name: NAME, url: this.receiver.url, event_types: ['reservation.expired'] };
    const answer = await this.admin.expect(
      'the subscription',
      [201],
      'POST',
      `${WEBHOOKS}?tenant_id=${TENANT}`,
      request,
    );
    this.receiver.secret = String(answer.body['signing_secret']);
  }

  /** Removes what this run, or an interrupted earlier one, has set up. */
  private async cleanUp(): Promise<void> {
    const { body } = await this.admin.expect(
      'the subscriptions',
      [200],
      'GET',
      `${WEBHOOKS}?tenant_id=${TENANT}&search=${LOOPBACK}&limit=100`,
    );
    const listed = body['subscriptions'] as readonly { subscription_id: string; name?: string }[];
    for (const { subscription_id: id } of listed.filter(({ name }) => name === NAME)) {
      await this.admin.expect('the subscription', [204], 'DELETE', `${WEBHOOKS}/${id}`);
    }
    const kept = readKept(this.keptFile);
    if (kept !== undefined) {
      await this.admin.expect('the webhook security configuration', [200], 'PUT', SECURITY, kept);
      rmSync(this.keptFile, { force: true });
    }
  }

  private keep(config: SecurityConfig): void {
    try {
      mkdirSync(join(this.keptFile, '..'), { recursive: true, mode: 0o700 });
      writeFileSync(this.keptFile, JSON.stringify(config), { mode: 0o600 });
    } catch (error) {
      throw new DemoError(`the webhook security configuration cannot be kept in ${this.keptFile}`, {
        cause: error,
      });
    }
  }
}

function readKept(file: string): object | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as object;
  } catch {
    return undefined;
  }
}

function holdsLoopback(range: string): boolean {
  const [network = '', prefix = ''] = range.split('/');
  if (network.includes(':')) {
    return false;
  }
  const list = new BlockList();
  list.addSubnet(network, Number(prefix), 'ipv4');
  return list.check(LOOPBACK);
}
