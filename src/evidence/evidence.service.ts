import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { Refusal } from '../ledger/index.js';
import { evidenceKey, orStoreError, ownedKey, RedisService, tagOfEvidenceId } from '../redis/index.js';
import {
  HealthContributors,
  type HealthReport,
  LOGGER,
  type Logger,
  MetricsRegistry,
  type MetricsTable,
} from '../telemetry/index.js';
import { type ArtifactType, CannotSign, type Envelope, isEnvelopeOf, Signer } from './envelope.js';

/** Why an outcome has no evidence: the key, the store, or the tenant's limit on stored bytes. */
export type EmitFailure = 'signing' | 'store' | 'limit';

const EVIDENCE_METRICS = {
  issued: {
    name: 'holdfast_evidence_issued_total',
    help: 'Envelopes issued, by artifact type; a replay issues one only where it is missing.',
    labels: ['artifact_type'],
  },
  failures: {
    name: 'cycles_evidence_emit_failed_total',
    help: 'Outcomes answered without evidence, by artifact type and reason (signing, store, limit).',
    labels: ['artifact_type', 'reason'],
  },
  reads: {
    name: 'holdfast_evidence_reads_total',
    help: 'Reads of envelopes by outcome (found, missing, damaged).',
    labels: ['outcome'],
  },
} as const satisfies MetricsTable;

/** The key of an envelope and what Redis needs for it, beside its text. */
const ENVELOPE_OVERHEAD_BYTES = 160;
/** Failures are counted each time, and logged at most once in this time. */
const LOG_INTERVAL_MS = 60_000;

/** CyclesEvidenceRef of the protocol. */
export interface EvidenceReference {
  readonly evidence_id: string;
  readonly cycles_evidence_url: string;
}

/** What an operation answered. */
export interface Outcome {
  readonly artifact: ArtifactType;
  /** As the script gave it; see lua/lib/attest.lua. Empty for the replay of an outcome that was not attested. */
  readonly stamp: string;
  readonly payload: object;
  /** A replay makes the envelope of the first outcome again, and stores it if it is missing. */
  readonly isReplay: boolean;
  /** Against whom the envelope counts. */
  readonly owner: { readonly tag: string; readonly tenantId: string };
  /** Whose record names the envelope. Its bytes were admitted with the reserve, so no limit refuses the envelope. */
  readonly reservationId?: string | undefined;
}

/** Issues, keeps and serves signed evidence of what operations answered. */
@Injectable()
export class EvidenceService implements OnModuleInit {
  private readonly counts = this.metrics.of(EVIDENCE_METRICS);
  private readonly serverId: string | undefined;
  private readonly signer: Signer | undefined;
  private readonly retentionMs: number;
  private readonly maxStoredBytes: number;
  private loggedAtMs = -Infinity;

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
    private readonly health: HealthContributors,
    @Inject(CONFIG) config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    const { evidenceServerId, evidenceKeys } = config;
    this.serverId = evidenceServerId;
    this.signer =
      evidenceServerId === undefined || evidenceKeys === undefined
        ? undefined
        : new Signer(evidenceServerId, evidenceKeys);
    this.retentionMs = Math.max(config.auditRetentionMs, config.idempotencyTtlMs);
    this.maxStoredBytes = config.tenantMaxStoredBytes;
  }

  get isIssuing(): boolean {
    return this.signer !== undefined;
  }

  onModuleInit(): void {
    const { signer } = this;
    if (signer !== undefined) {
      this.redis.scripts.attestOutcomes();
      this.health.register({ name: 'evidence', check: () => healthOf(signer, this.redis.clock.nowMs()) });
    }
  }

  /** The public keys as JSON text, or undefined if no evidence is issued. */
  keySet(): string | undefined {
    return this.signer?.keySet(this.redis.clock.nowMs());
  }

  referenceTo(evidenceId: string): EvidenceReference {
    return { evidence_id: evidenceId, cycles_evidence_url: `${this.serverId ?? ''}/evidence/${evidenceId}` };
  }

  /**
   * Makes the envelope of an outcome and stores it. Never rejects: an operation that has happened is answered without evidence if
   * there can be none, and its repetition with the same idempotency key tries again.
   * @returns the reference for the answer, or undefined
   */
  async issue(outcome: Outcome): Promise<EvidenceReference | undefined> {
    const [issuedAt, traceId] = outcome.stamp.split(':');
    if (this.signer === undefined || issuedAt === undefined || traceId === undefined) {
      return undefined;
    }
    const { artifact, payload, isReplay } = outcome;
    const statement = { artifact, payload, traceId, issuedAtMs: Number(issuedAt) };
    let envelope: Envelope;
    try {
      envelope = this.signer.envelopeOf(statement);
    } catch (error) {
      const stored = isReplay ? await this.stored(this.signer, statement) : undefined;
      if (stored === undefined) {
        this.fail(artifact, 'signing', error);
      }
      return stored;
    }
    try {
      const kept = await this.keep(envelope, outcome);
      if (kept === 'refused') {
        this.counts.failures.inc({ artifact_type: artifact, reason: 'limit' });
        return undefined;
      }
      if (kept === 'stored') {
        this.counts.issued.inc({ artifact_type: artifact });
      }
      return this.referenceTo(envelope.evidenceId);
    } catch (error) {
      this.fail(artifact, 'store', error);
      return undefined;
    }
  }

  /**
   * The canonical JSON of an envelope.
   * @throws Refusal NOT_FOUND; Error if what is stored is not the envelope; StoreUnavailable
   */
  async read(evidenceId: string): Promise<string> {
    const tag = tagOfEvidenceId(evidenceId, this.redis.partitions);
    let text: string | null;
    try {
      text = await orStoreError(this.redis.client.get(evidenceKey(tag, evidenceId)));
    } catch (error) {
      if (error instanceof Error && error.message.startsWith('WRONGTYPE')) {
        this.counts.reads.inc({ outcome: 'damaged' });
      }
      throw error;
    }
    if (text === null) {
      this.counts.reads.inc({ outcome: 'missing' });
      throw new Refusal('NOT_FOUND', 'there is no such evidence, or no longer');
    }
    if (!isEnvelopeOf(evidenceId, text)) {
      this.counts.reads.inc({ outcome: 'damaged' });
      throw new Error(`the stored envelope ${evidenceId} is damaged`);
    }
    this.counts.reads.inc({ outcome: 'found' });
    return text;
  }

  /** The reference to an envelope that was stored when its key could still sign. */
  private async stored(
    signer: Signer,
    statement: Parameters<Signer['evidenceIdOf']>[0],
  ): Promise<EvidenceReference | undefined> {
    try {
      const evidenceId = signer.evidenceIdOf(statement);
      const tag = tagOfEvidenceId(evidenceId, this.redis.partitions);
      return (await this.redis.client.exists(evidenceKey(tag, evidenceId))) === 1
        ? this.referenceTo(evidenceId)
        : undefined;
    } catch {
      return undefined;
    }
  }

  /**
   * Stores the envelope before its reference leaves, unless a replay finds it stored. One that is not there is counted, and refused at
   * the tenant's limit, in a replay as in the first attempt.
   */
  private async keep(envelope: Envelope, outcome: Outcome): Promise<'stored' | 'found' | 'refused'> {
    const { evidenceId, text } = envelope;
    const { client, partitions } = this.redis;
    const key = evidenceKey(tagOfEvidenceId(evidenceId, partitions), evidenceId);
    const bytes = Buffer.byteLength(text) + ENVELOPE_OVERHEAD_BYTES;
    const store = async (): Promise<boolean> =>
      (await client.set(key, text, 'PX', this.retentionMs, 'NX')) === 'OK';
    if (outcome.reservationId !== undefined) {
      // One after the other: a record must not name an envelope that was not stored, and they may be on two nodes.
      const isStored = await store();
      await this.count(evidenceId, isStored ? bytes : 0, outcome);
      return isStored ? 'stored' : 'found';
    }
    if (outcome.isReplay && (await client.exists(key)) === 1) {
      return 'found';
    }
    // Counted first, as the limit decides. Identical requests at the same time may count an envelope once each.
    if (!(await this.count(evidenceId, bytes, outcome))) {
      return 'refused';
    }
    return (await store()) ? 'stored' : 'found';
  }

  /** @returns false if the tenant's limit on stored bytes refuses the envelope */
  private async count(
    evidenceId: string,
    bytes: number,
    { artifact, owner, reservationId }: Outcome,
  ): Promise<boolean> {
    const { status } = await this.redis.scripts.call(
      'keep_evidence',
      { owned: ownedKey(owner.tag, owner.tenantId) },
      {
        tenantId: owner.tenantId,
        bytes,
        retentionMs: this.retentionMs,
        maxStored: this.maxStoredBytes,
        limited: reservationId === undefined ? 1 : 0,
        reservationId: reservationId ?? '',
        artifact: reservationId === undefined ? '' : artifact,
        reference: Buffer.from(evidenceId, 'hex').toString('base64url'),
      },
    );
    return status === 'KEPT';
  }

  private fail(artifact: ArtifactType, reason: EmitFailure, error: unknown): void {
    this.counts.failures.inc({ artifact_type: artifact, reason });
    const nowMs = performance.now();
    if (nowMs - this.loggedAtMs >= LOG_INTERVAL_MS) {
      this.loggedAtMs = nowMs;
      this.logger.error(
        { err: error, artifact_type: artifact, reason },
        'an outcome was answered without evidence',
      );
    }
  }
}

/**
 * Signs at Redis' time. So this is red while outcomes cannot be signed, and green again once a key covers the time, even if no request
 * arrives meanwhile. A payload that has no canonical form does not make it red: clients send it.
 */
function healthOf(signer: Signer, nowMs: number): HealthReport {
  try {
    return { up: true, details: { kid: signer.probe(nowMs).kid } };
  } catch (error) {
    return {
      up: false,
      details: { problem: error instanceof CannotSign ? error.message : 'the key does not sign' },
    };
  }
}
