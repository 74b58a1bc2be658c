// What the service, its Redis and the whole machine use: CPU seconds and memory.
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';

/** @typedef {import('ioredis').Redis} Redis */

const CLOCK_TICKS_PER_SECOND = 100;

/**
 * CPU seconds that a process has used, and those of its children that have ended; NaN where there is no /proc.
 * @param {number | 'self' | undefined} pid
 */
function secondsOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [user = NaN, system = NaN, children = NaN, systemOfChildren = NaN] = fields
      .slice(11, 15)
      .map((ticks) => Number(ticks) / CLOCK_TICKS_PER_SECOND);
    return { own: user + system, ofChildren: children + systemOfChildren };
  } catch {
    return { own: NaN, ofChildren: NaN };
  }
}

/** @param {number | undefined} pid */
export const cpuSecondsOf = (pid) => secondsOf(pid).own;

/** CPU seconds of all processes of the machine. */
function machineCpuSeconds() {
  return cpus().reduce((sum, { times }) => sum + (times.user + times.nice + times.sys + times.irq) / 1000, 0);
}

/**
 * Begins to watch what other processes use. When everything that was started has ended, the returned function gives their share of the
 * processors, or NaN.
 */
export function watchOthers() {
  const ownSeconds = () => {
    const { own, ofChildren } = secondsOf('self');
    return own + ofChildren;
  };
  const sample = () => ({ at: performance.now(), machine: machineCpuSeconds(), own: ownSeconds() });
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

/**
 * Bytes of a key, by MEMORY USAGE: the mean of these.
 * @param {Redis} redis
 * @param {readonly string[]} keys
 */
export async function meanUsage(redis, keys) {
  const pipeline = redis.pipeline();
  keys.forEach((key) => pipeline.memory('USAGE', key));
  const sizes = ((await pipeline.exec()) ?? []).map(([, bytes]) => Number(bytes ?? 0));
  return sizes.reduce((sum, bytes) => sum + bytes, 0) / keys.length;
}

/**
 * Bytes of an index for each of its members.
 * @param {Redis} redis
 * @param {string} index
 */
export const shareOfIndex = async (redis, index) =>
  Number((await redis.memory('USAGE', index, 'SAMPLES', 0)) ?? 0) / Math.max(1, await redis.zcard(index));
