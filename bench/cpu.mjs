// What the service, its Redis and the whole machine use: CPU seconds and memory.
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';

/** @typedef {import('ioredis').Redis} Redis */

const CLOCK_TICKS_PER_SECOND = 100;

/**
 * Clock ticks of a process in user and system mode, and the same of its children that have ended.
 * @param {number | 'self' | undefined} pid
 */
function ticksOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields.slice(11, 15).map(Number);
  } catch {
    return [];
  }
}

/**
 * CPU seconds that a process has used; NaN where there is no /proc.
 * @param {number | undefined} pid
 */
export function cpuSecondsOf(pid) {
  const [user = NaN, system = NaN] = ticksOf(pid);
  return (user + system) / CLOCK_TICKS_PER_SECOND;
}

/** CPU seconds of all processes of the machine. */
function machineCpuSeconds() {
  return cpus().reduce((sum, { times }) => sum + (times.user + times.nice + times.sys + times.irq) / 1000, 0);
}

/** CPU seconds of this process and of those that it started, as far as they have ended; NaN where there is no /proc. */
function ownCpuSeconds() {
  const [user = NaN, system = NaN, children = NaN, systemOfChildren = NaN] = ticksOf('self');
  return (user + system + children + systemOfChildren) / CLOCK_TICKS_PER_SECOND;
}

/**
 * Begins to watch what other processes use. When everything that was started has ended, the returned function gives their share of the
 * processors, or NaN.
 */
export function watchOthers() {
  const sample = () => ({ at: performance.now(), machine: machineCpuSeconds(), own: ownCpuSeconds() });
  const before = sample();
  return () => {
    const now = sample();
    const seconds = ((now.at - before.at) / 1000) * cpus().length;
    return (now.machine - before.machine - (now.own - before.own)) / seconds;
  };
}

/**
 * Includes the child that rewrites the log, which is part of the ledger's cost.
 * @param {Redis} redis
 */
async function redisCpuSeconds(redis) {
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
  });
  const before = await used();
  return async () => {
    const now = await used();
    return {
      elapsed_s: (now.at - before.at) / 1000,
      server_cpu_s: now.server - before.server,
      redis_cpu_s: now.redis - before.redis,
    };
  };
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
