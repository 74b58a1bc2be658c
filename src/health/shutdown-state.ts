import { Injectable, type OnModuleDestroy } from '@nestjs/common';

/** Whether this process is on its way out; readiness is red from then on, so that no new traffic is sent here. */
@Injectable()
export class ShutdownState implements OnModuleDestroy {
  private begun = false;

  get stopping(): boolean {
    return this.begun;
  }

  begin(): void {
    this.begun = true;
  }

  onModuleDestroy(): void {
    this.begun = true;
  }
}
