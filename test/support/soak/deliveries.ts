import { type Received, WebhookReceiver } from '../webhook-receiver.js';

interface Told {
  times: number;
  /** Whether the endpoint refused the first attempt. The event may then arrive after later ones. */
  readonly isRefused: boolean;
  /** Its position among the first attempts of all events. */
  readonly place: number;
}

/** An endpoint that records the events it receives, and refuses some first attempts. */
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

  /** Records an attempt, and returns whether the endpoint accepts it. */
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

  /** Attempts beyond the first, except those that follow a refusal. */
  get repeated(): number {
    return this.attempts - this.told.size - this.refused;
  }

  /** Number of events that the endpoint received and the log does not have, because a failover lost them. */
  beyond(known: ReadonlySet<string>): number {
    return [...this.told.keys()].filter((id) => !known.has(id)).length;
  }

  /** The tenant's events that have not been accepted yet. */
  missing(inOrder: readonly string[]): string[] {
    return inOrder.filter((id) => {
      const told = this.told.get(id);
      return told === undefined || (told.isRefused && told.times === 1);
    });
  }

  /** The tenant's events that arrived before an earlier one, except after a refusal. */
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
