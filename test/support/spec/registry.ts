import { readFileSync } from 'node:fs';

/** The registry of action kinds that is published with the protocol's documents. */
export interface PublishedRegistry {
  readonly version: string;
  readonly kinds: readonly object[];
}

/** @throws Error if the run has no documents */
export function publishedRegistry(): PublishedRegistry {
  return JSON.parse(readFileSync(process.env['TEST_REGISTRY_FILE'] ?? '', 'utf8')) as PublishedRegistry;
}
