// What the service, its Redis and the whole machine use: CPU seconds and memory.
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';

/** @typedef {import('ioredis').Redis} Redis */

const CLOCK_TICKS_PER_SECOND = 100;

/**
 * CPU seconds that a process has used, from /proc; NaN where there is none.
 * @param {number | undefined} pid
 */
export function cpuSecondsOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) / CLOCK_TICKS_PER_SECOND;
  } catch {
    return NaN;
  }
}

/** CPU seconds of all processes. The part that does not belong to the run shows whether other work disturbed it. */
export function machineCpuSeconds() {
  return cpus().reduce((sum, { times }) => sum + (times.user + times.nice + times.sys + times.irq) / 1000, 0);
}

/**
 * Includes the child that rewrites the log, which is part of the ledger's cost.
 * @param {Redis} redis
 */
export async function redisCpuSeconds(redis) {
  const info = await redis.info('cpu');
  return ['user', 'sys', 'user_children', 'sys_children'].reduce(
    (sum, kind) => sum + infoNumber(info, `used_cpu_${kind}`),
    0,
  );
}

/**
 * A number from INFO, or 0 if it is missing.
 * @param {string} info
 * @param {string} name
 */
export function infoNumber(info, name) {
  return Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1] ?? 0);
}

/**
 * Starts counting. Resolves with a function that returns the use since then.
 * @param {number} pid of the service
 * @param {Redis} redis
 * @returns {Promise<() => Promise<import('./types.ts').CpuUse>>}
 */
export async function countCpu(pid, redis) {
  const used = async () => ({
    at: performance.now(),
    server: cpuSecondsOf(pid),
    redis: await redisCpuSeconds(redis),
    machine: machineCpuSeconds(),
  });
  const before = await used();
  return async () => {
    const now = await used();
    return {
      elapsed_s: (now.at - before.at) / 1000,
      server_cpu_s: now.server - before.server,
      redis_cpu_s: now.redis - before.redis,
      machine_cpu_s: now.machine - before.machine,
    };
  };
}

/**
 * The CPU seconds of processes that do not belong to the run.
 * @param {import('./types.ts').CpuUse} use
 * @param {number} ownSeconds of the load generators
 */
export function otherCpuSeconds({ machine_cpu_s, server_cpu_s, redis_cpu_s }, ownSeconds) {
  return Math.max(0, machine_cpu_s - (server_cpu_s || 0) - redis_cpu_s - ownSeconds);
}

/**
 * The memory of stored data in bytes, without buffers, which vary with the load.
 * @param {Redis} redis
 */
export async function usedMemory(redis) {
  const info = await redis.info('memory');
  return (
    infoNumber(info, 'used_memory') -
    infoNumber(info, 'mem_aof_buffer') -
    infoNumber(info, 'mem_clients_normal')
  );
}

/** @param {Redis} redis */
export async function mainThreadSeconds(redis) {
  const info = await redis.info('cpu');
  // Missing on systems that do not count threads.
  return infoNumber(info, 'used_cpu_user_main_thread') + infoNumber(info, 'used_cpu_sys_main_thread') || NaN;
}
