/** A rule of the protocol for servers. */
export interface Rule {
  readonly rule: string;
  /** Its place in the protocol's documents: sections, operations, schemas. */
  readonly place: string;
  readonly note?: string;
  /** If the rule is not met yet: what happens instead. */
  readonly open?: string;
}

export type Rules = Readonly<Record<string, Rule>>;
