import { partitionCode, tagOf } from '../redis/index.js';
import type { Turn } from './worker.js';

/** Walks over all partitions within a time budget. A walk that runs out of time continues where it stopped at the next call. */
export class PartitionPass {
  private place = 0;

  /**
   * @param step works on a part of a partition, and returns whether there is more
   * @param cut called when the walk runs out of time
   */
  constructor(
    private readonly step: (tag: string) => Promise<boolean>,
    private readonly cut: () => void,
  ) {}

  /** @returns whether this walk visited all partitions */
  async walk(partitions: number, budgetMs: number, turn?: Turn): Promise<boolean> {
    const deadline = performance.now() + budgetMs;
    const first = this.place;
    for (let partition = first; partition < partitions; partition += 1) {
      for (let more = true; more;) {
        if (turn?.goesOn() === false || performance.now() > deadline) {
          this.place = partition;
          this.cut();
          return false;
        }
        more = await this.step(tagOf(partitionCode(partition)));
      }
    }
    this.place = 0;
    return first === 0;
  }
}
