export { readJson, stringifyJson } from '../../../src/wire/exact-json';

/** An integer of 64 bits, as `readJson` returns it: a bigint where a number would be rounded. */
export type Int64 = number | bigint;
