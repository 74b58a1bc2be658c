import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import { once } from 'node:events';

/** Addresses, `silent` for no reply at all, or `failing` for SERVFAIL. An unknown name does not exist. */
export type DnsAnswer = readonly string[] | 'silent' | 'failing';

const [TYPE_A, TYPE_AAAA] = [1, 28];
const RCODE = { found: 0, failing: 2, unknown: 3 } as const;

/** A minimal name server on loopback: A and AAAA records over UDP. */
export class DnsServer {
  readonly answers = new Map<string, DnsAnswer>();
  /** The questions so far, such as `A name`, in order. */
  readonly asked: string[] = [];
  ttlS = 60;

  private constructor(private readonly socket: Socket) {
    socket.on('message', (message, from) => this.answer(message, from));
  }

  static async start(): Promise<DnsServer> {
    const socket = createSocket('udp4');
    socket.bind(0, '127.0.0.1');
    await once(socket, 'listening');
    return new DnsServer(socket);
  }

  get address(): string {
    return `127.0.0.1:${this.socket.address().port}`;
  }

  /** How often the name's IPv4 addresses were asked for. */
  countOf(name: string): number {
    return this.asked.filter((question) => question === `A ${name}`).length;
  }

  stop(): void {
    this.socket.close();
  }

  private answer(message: Buffer, from: RemoteInfo): void {
    const { name, type, end } = questionIn(message);
    this.asked.push(`${type === TYPE_A ? 'A' : 'AAAA'} ${name}`);
    const answer = this.answers.get(name);
    if (answer === 'silent') {
      return;
    }
    const addresses = (Array.isArray(answer) ? (answer as readonly string[]) : []).filter(
      (address) => address.includes(':') === (type === TYPE_AAAA),
    );
    const header = Buffer.alloc(12);
    message.copy(header, 0, 0, 2);
    header.writeUInt16BE(
      0x8180 | (answer === 'failing' ? RCODE.failing : answer === undefined ? RCODE.unknown : RCODE.found),
      2,
    );
    header.writeUInt16BE(1, 4);
    header.writeUInt16BE(addresses.length, 6);
    this.socket.send(
      Buffer.concat([
        header,
        message.subarray(12, end),
        ...addresses.map((address) => this.record(address, type)),
      ]),
      from.port,
      from.address,
    );
  }

  private record(address: string, type: number): Buffer {
    const bytes = address.includes(':')
      ? Buffer.from(groupsOf(address).flatMap((group) => [group >> 8, group & 0xff]))
      : Buffer.from(address.split('.').map(Number));
    const head = Buffer.alloc(12);
    // A pointer to the name in the question.
    head.writeUInt16BE(0xc00c, 0);
    head.writeUInt16BE(type, 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt32BE(this.ttlS, 6);
    head.writeUInt16BE(bytes.length, 10);
    return Buffer.concat([head, bytes]);
  }
}

function questionIn(message: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = message.readUInt8(at); length > 0; length = message.readUInt8(at)) {
    labels.push(message.toString('ascii', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), type: message.readUInt16BE(at + 1), end: at + 5 };
}

function groupsOf(address: string): number[] {
  const [head = '', tail] = address.split('::');
  const read = (text: string | undefined): number[] =>
    text === undefined || text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));
  const [first, last] = [read(head), read(tail)];
  return [...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last];
}
