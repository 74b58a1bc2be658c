/** A rule of the protocol for servers. */
export interface Rule {
  readonly rule: string;
  /** Where it stands in the protocol's documents: sections, operations, schemas. */
  readonly place: string;
  readonly note?: string;
  /** The rule is not met yet, and this is what happens instead. */
  readonly open?: string;
}

export type Rules = Readonly<Record<string, Rule>>;
