/** BENCH_SHORT=1 runs a benchmark in a fraction of its time, to test it. The report says that its figures are meaningless. */
export const SHORT = process.env.BENCH_SHORT === '1';

/**
 * The first value for a measurement, the second one for a test of the benchmark.
 * @template Value
 * @param {Value} usual
 * @param {Value} short
 */
export const unlessShort = (usual, short) => (SHORT ? short : usual);
