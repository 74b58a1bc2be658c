import { type Received, WebhookReceiver } from '../webhook-receiver.js';

interface Told {
  times: number;
  /** The endpoint refused the first attempt, so it may come after later events. */
  readonly isRefused: boolean;
  /** Its place among the first attempts of all events. */
  readonly place: number;
}

/** An endpoint that keeps account of the events it is told of, and refuses some first attempts. */
export class Deliveries {
  private readonly told = new Map<string, Told>();
  refused = 0;

  constructor(private readonly refuses: () => boolean) {}

  /** Starts the endpoint. */
  async listen(): Promise<WebhookReceiver> {
    const receiver = await WebhookReceiver.start();
    receiver.react = (response, { body }: Received) => {
      const { event_id: id } = JSON.parse(body) as { event_id: string };
      response.writeHead(this.take(id) ? 200 : 500).end();
      receiver.received.length = 0;
    };
    return receiver;
  }

  /** Whether it is accepted. */
  take(eventId: string): boolean {
    const earlier = this.told.get(eventId);
    if (earlier !== undefined) {
      earlier.times += 1;
      return true;
    }
    const isRefused = this.refuses();
    this.refused += isRefused ? 1 : 0;
    this.told.set(eventId, { times: 1, isRefused, place: this.told.size });
    return !isRefused;
  }

  get attempts(): number {
    return [...this.told.values()].reduce((sum, { times }) => sum + times, 0);
  }

  /** Attempts beyond the first, without those that a refusal asked for. */
  get repeated(): number {
    return this.attempts - this.told.size - this.refused;
  }

  /** Events that the endpoint was told of and the log does not have: a failover lost them. */
  beyond(known: ReadonlySet<string>): number {
    return [...this.told.keys()].filter((id) => !known.has(id)).length;
  }

  /** Those of a tenant that have not arrived and been accepted. */
  missing(inOrder: readonly string[]): string[] {
    return inOrder.filter((id) => {
      const told = this.told.get(id);
      return told === undefined || (told.isRefused && told.times === 1);
    });
  }

  /** Those of a tenant that came before an earlier one, except for what was refused. */
  outOfOrder(inOrder: readonly string[]): string[] {
    let last = -1;
    return inOrder.filter((id) => {
      const told = this.told.get(id);
      if (told === undefined || told.isRefused) {
        return false;
      }
      const isLate = told.place < last;
      last = Math.max(last, told.place);
      return isLate;
    });
  }
}
