/** BENCH_SHORT=1 tries a benchmark out in a fraction of its time. Its figures mean nothing, and its report says so. */
export const SHORT = process.env.BENCH_SHORT === '1';

/**
 * What a measurement takes, or what is enough to see that it works.
 * @template Value
 * @param {Value} usual
 * @param {Value} short
 */
export const unlessShort = (usual, short) => (SHORT ? short : usual);
