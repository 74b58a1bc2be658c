import { partitionCode, tagOf } from '../redis/index.js';

/** Looks at all partitions, for as long as the time allows, and goes on in the next pass where it was cut. */
export class PartitionPass {
  private place = 0;
  private isStopped = false;

  /**
   * @param run works on a part, and tells whether there is more
   * @param cut is called when the time ends the pass
   */
  constructor(
    private readonly run: (tag: string) => Promise<boolean>,
    private readonly cut: () => void,
  ) {}

  stop(): void {
    this.isStopped = true;
  }

  /** @returns whether this pass looked at all partitions */
  async go(partitions: number, budgetMs: number): Promise<boolean> {
    const deadline = performance.now() + budgetMs;
    const first = this.place;
    for (let partition = first; partition < partitions; partition += 1) {
      for (let more = true; more;) {
        if (this.isStopped || performance.now() > deadline) {
          this.place = partition;
          this.cut();
          return false;
        }
        more = await this.run(tagOf(partitionCode(partition)));
      }
    }
    this.place = 0;
    return first === 0;
  }
}
