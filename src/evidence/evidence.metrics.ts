import { Injectable } from '@nestjs/common';
import { type LabelledCounter, MetricsRegistry } from '../telemetry/index.js';
import type { ArtifactType } from './envelope.js';

/** Why an outcome has no evidence: the key, the store, or the tenant's limit on stored bytes. */
export type EmitFailure = 'signing' | 'store' | 'limit';

@Injectable()
export class EvidenceMetrics {
  private readonly issues: LabelledCounter;
  private readonly failures: LabelledCounter;
  private readonly reads: LabelledCounter;

  constructor(metrics: MetricsRegistry) {
    this.issues = metrics.counter({
      name: 'holdfast_evidence_issued_total',
      help: 'Envelopes issued, by artifact type; a replay issues one only where it is missing.',
      labels: ['artifact_type'],
    });
    this.failures = metrics.counter({
      name: 'cycles_evidence_emit_failed_total',
      help: 'Outcomes answered without evidence, by artifact type and reason (signing, store, limit).',
      labels: ['artifact_type', 'reason'],
    });
    this.reads = metrics.counter({
      name: 'holdfast_evidence_reads_total',
      help: 'Reads of envelopes by outcome (found, missing, damaged).',
      labels: ['outcome'],
    });
  }

  issued(artifact: ArtifactType): void {
    this.issues.inc({ artifact_type: artifact });
  }

  failed(artifact: ArtifactType, reason: EmitFailure): void {
    this.failures.inc({ artifact_type: artifact, reason });
  }

  read(outcome: 'found' | 'missing' | 'damaged'): void {
    this.reads.inc({ outcome });
  }
}
