import { jest } from '@jest/globals';
import { eventually } from './eventually.js';

/** Holds back the replies to calls that are made at once, so that what a test does meanwhile overtakes them. */
export class HeldReplies {
  private readonly opened: Promise<void>;
  private readonly restore: () => void;
  private letGo: () => void = () => undefined;
  private count = 0;

  /** Holds the replies of a method from now on: of all its calls, or of those that `isHeld` picks by their arguments. */
  constructor(on: object, name: string, isHeld: (...args: unknown[]) => boolean = () => true) {
    this.opened = new Promise((resolve) => (this.letGo = resolve));
    const calls = on as Record<string, (...args: unknown[]) => Promise<unknown>>;
    const original = (calls[name] as (...args: unknown[]) => Promise<unknown>).bind(on);
    const spy = jest.spyOn(calls, name).mockImplementation(async (...args) => {
      const held = isHeld(...args);
      const reply = await original(...args);
      if (held) {
        this.count += 1;
        await this.opened;
      }
      return reply;
    });
    this.restore = () => spy.mockRestore();
  }

  /** Waits until so many are held. Later calls are answered at once. */
  async have(count: number): Promise<void> {
    await eventually(`${count} replies are held`, () => this.count === count);
    this.restore();
  }

  open(): void {
    this.restore();
    this.letGo();
  }
}
