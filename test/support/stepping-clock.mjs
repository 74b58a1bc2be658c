// Loaded before a built service by NODE_OPTIONS. The wall clock of the process is off by CLOCK_OFFSET_MS from
// the start, and each SIGUSR2 shifts it by the next offset in CLOCK_STEPS_MS. Timers are not affected, because
// changing a wall clock never affects the monotonic one.
const RealDate = Date;
const steps = (process.env.CLOCK_STEPS_MS ?? '').split(',').map(Number);
let offsetMs = Number(process.env.CLOCK_OFFSET_MS ?? 0);

const now = () => RealDate.now() + offsetMs;

globalThis.Date = new Proxy(RealDate, {
  construct: (_, /** @type {[]} */ given) =>
    given.length === 0 ? new RealDate(now()) : new RealDate(...given),
  /** @returns {unknown} */
  get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
});

process.on('SIGUSR2', () => {
  offsetMs = steps.shift() ?? 0;
  process.stdout.write(`the clock is off by ${offsetMs} ms\n`);
});
