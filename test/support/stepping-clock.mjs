// Loaded before a built service by NODE_OPTIONS: each SIGUSR2 puts the clock of the process as far off as CLOCK_STEPS_MS says
// next. Timers are not touched, as no step of a clock touches the monotonic one.
const RealDate = Date;
const steps = process.env.CLOCK_STEPS_MS.split(',').map(Number);
let offsetMs = 0;

globalThis.Date = class extends RealDate {
  constructor(...given) {
    super(...(given.length === 0 ? [RealDate.now() + offsetMs] : given));
  }

  static now() {
    return RealDate.now() + offsetMs;
  }
};

process.on('SIGUSR2', () => {
  offsetMs = steps.shift() ?? 0;
  process.stdout.write(`the clock is off by ${offsetMs} ms\n`);
});
