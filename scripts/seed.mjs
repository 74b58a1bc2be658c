// Random choices that can be repeated: every test, script and benchmark that chooses at random takes its seed from here and prints it.

const SEEDS = 2 ** 31;

/**
 * The seed that the variable names, so that a failure can be repeated, or else a new one.
 * @param {string} variable of the environment
 * @param {string} what chooses at random
 * @param {(line: string) => unknown} [print] gets the line that says how to repeat the choices
 */
export function seedFrom(variable, what, print = (line) => process.stdout.write(line)) {
  const given = process.env[variable];
  const seed =
    given === undefined ? Math.floor(performance.timeOrigin + performance.now()) % SEEDS : Number(given);
  if (!Number.isInteger(seed) || seed < 0 || seed >= SEEDS) {
    throw new Error(`${variable} is ${given}, and must be a whole number from 0 to ${SEEDS - 1}`);
  }
  print(`${what}: ${variable}=${seed}\n`);
  return seed;
}

/**
 * Numbers from 0 to 1, the same ones for the same seed (mulberry32).
 * @param {number} seed
 * @returns {() => number}
 */
export function randomFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
