import { Injectable } from '@nestjs/common';

/** The time that rate-limit windows go by: milliseconds that only grow, whatever is done to the machine's date. */
@Injectable()
export class WindowClock {
  nowMs(): number {
    return performance.now();
  }
}
