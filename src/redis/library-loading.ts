import type { Redis } from 'ioredis';
import { isOwnLibrary, type Library, LIBRARY_PATTERN } from './script-library.js';

/** A full Redis accepts no functions, but still runs the text of a script. */
function isFull(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('OOM');
}

/** Whether a master has the library. */
async function hasLibrary(master: Redis, name: string): Promise<boolean> {
  return (await master.function('LIST', 'LIBRARYNAME', name)).length > 0;
}

/** The names of the libraries on a master that other versions of Holdfast made. A name alone proves nothing. */
async function otherVersions(master: Redis, own: string): Promise<string[]> {
  const listed = (await master.function('LIST', 'LIBRARYNAME', LIBRARY_PATTERN, 'WITHCODE')) as unknown[][];
  const member = (library: unknown[], name: string): string => library[library.indexOf(name) + 1] as string;
  return listed
    .filter((library) => isOwnLibrary(member(library, 'library_name'), member(library, 'library_code')))
    .map((library) => member(library, 'library_name'))
    .filter((name) => name !== own);
}

/** Deletes the libraries of other versions from a master. One that cannot be deleted stays, and harms nothing. */
export async function deleteOtherVersions(master: Redis, library: Library): Promise<void> {
  const others = await otherVersions(master, library.name);
  await Promise.allSettled(others.map((name) => master.function('DELETE', name)));
}

/** Loads the library into a master that does not have it. A full one goes without: calls send it the text. */
export async function loadInto(master: Redis, library: Library): Promise<void> {
  if (await hasLibrary(master, library.name)) {
    return;
  }
  try {
    await master.function('LOAD', 'REPLACE', library.code);
  } catch (error) {
    if (!isFull(error)) {
      throw error;
    }
  }
}
