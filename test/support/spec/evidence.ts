import { readFileSync } from 'node:fs';
import { problemsOf, SchemaBook } from './schema-book.js';

interface EvidenceDocuments {
  readonly schema: object;
  readonly fixtures: readonly EvidenceFixture[];
}

/** An evidence envelope that is published with the protocol's documents. */
export interface EvidenceFixture {
  readonly name: string;
  readonly text: string;
}

let loaded: EvidenceDocuments | undefined;
let book: SchemaBook | undefined;

function documents(): EvidenceDocuments | undefined {
  const file = process.env['TEST_EVIDENCE_FILE'];
  if (loaded === undefined && file !== undefined) {
    loaded = JSON.parse(readFileSync(file, 'utf8')) as EvidenceDocuments;
  }
  return loaded;
}

export function evidenceFixtures(): readonly EvidenceFixture[] {
  return documents()?.fixtures ?? [];
}

/**
 * What is invalid in an envelope's text by the schema of cycles-evidence-v0.2. Empty if the run has no
 * documents.
 */
export function envelopeProblems(text: string): string[] {
  const found = documents();
  if (found === undefined) {
    return [];
  }
  book ??= new SchemaBook({ evidence: found.schema });
  return problemsOf(book.validatorOf('evidence', '#/components/schemas/CyclesEvidence'), JSON.parse(text));
}
