const MOST_MORE = 3;

/**
 * Plays random worlds that must together reach every one of `words`: without it, they would show nothing about it. The rarest words are
 * missing in one of some dozens of seeds. Then the worlds of up to three more seeds are played, too.
 *
 * @param play plays the worlds of a seed, and counts in `tally` what they reach
 * @returns the words that were never reached
 */
export async function reachAll(
  words: readonly string[],
  tally: ReadonlyMap<string, number>,
  seed: number,
  play: (seed: number) => Promise<void>,
): Promise<string[]> {
  const missing = (): string[] => words.filter((word) => !tally.has(word));
  await play(seed);
  for (let more = 1; more <= MOST_MORE && missing().length > 0; more += 1) {
    await play(seed + more);
  }
  return missing();
}
