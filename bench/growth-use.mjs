// The processor time of the run, to tell it from what other processes of the machine use meanwhile.
import { cpuSecondsOf, machineCpuSeconds, redisCpuSeconds } from './cpu.mjs';

class OwnUse {
  began = { at: performance.now(), machine: machineCpuSeconds() };
  /** Of services that have ended, and of their Redis. */
  seconds = 0;

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
    const { user, system } = process.cpuUsage();
    const used = machineCpuSeconds() - this.began.machine;
    return {
      elapsed_s: (performance.now() - this.began.at) / 1000,
      other_cpu_s: Math.max(0, used - this.seconds - (user + system) / 1e6),
    };
  }
}

export const OWN_USE = new OwnUse();
