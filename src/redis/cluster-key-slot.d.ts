/** The package has no types. */
declare module 'cluster-key-slot' {
  /** The slot of a key, 0 to 16383, by its hash tag if it has one. */
  function calculateSlot(key: string): number;
  export = calculateSlot;
}
