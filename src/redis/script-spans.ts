import type { Span, Tracing } from '../telemetry/index.js';
import type { Runnable } from './script-source.js';

/**
 * A span for one call of a script, or for several in one pipeline, if the calling code runs in one. Named after OpenTelemetry's
 * conventions for calls of databases. Keys and arguments are not part of it.
 */
export function spanOfCall(tracing: Tracing, { header }: Runnable, calls?: number): Span | undefined {
  if (!tracing.isOn) {
    return undefined;
  }
  return tracing.child(header.name, {
    kind: 'client',
    attributes: {
      'db.system.name': 'redis',
      'db.operation.name': 'FCALL',
      'db.stored_procedure.name': header.name,
      'db.operation.batch.size': calls,
    },
  });
}

/** The status word of a reply, if it begins with one. */
export function statusIn([first = '']: readonly string[]): string | undefined {
  return /^[A-Z][A-Z_]*$/.test(first) ? first : undefined;
}
