// The CPU time of the run, to distinguish it from that of other processes on the machine.
import { cpuSecondsOf, machineCpuSeconds, redisCpuSeconds } from './cpu.mjs';

class OwnUse {
  began = present();
  /** CPU time of services that have ended, and of their Redis. */
  seconds = 0;

  /** Starts counting for a run. There may have been others in this process. */
  begin() {
    this.began = present();
    this.seconds = 0;
  }

  /**
   * A service that was started for the run and ends now.
   * @param {number} pid
   * @param {import('ioredis').Redis} redis its Redis
   */
  async add(pid, redis) {
    this.seconds += (cpuSecondsOf(pid) || 0) + (await redisCpuSeconds(redis));
  }

  /** @returns {import('./types.ts').Shared} */
  phase() {
    const { at, machine, own } = present();
    const used = machine - this.began.machine;
    return {
      elapsed_s: (at - this.began.at) / 1000,
      other_cpu_s: Math.max(0, used - this.seconds - (own - this.began.own)),
    };
  }
}

function present() {
  const { user, system } = process.cpuUsage();
  return { at: performance.now(), machine: machineCpuSeconds(), own: (user + system) / 1e6 };
}

export const OWN_USE = new OwnUse();
