import { Injectable } from '@nestjs/common';
import { ArrayMaxSize, ArrayMinSize } from 'class-validator';
import { fingerprintOf, randomBase62, Refusal } from '../../ledger/index.js';
import { codeOfTenant, type NamedCall, RedisService } from '../../redis/index.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import { NestedArray } from '../../wire/index.js';
import { admittedScopes } from '../admission.js';
import type { Call, Outcome } from '../ledger-operation.js';
import { HeadersOfOperation, headersOf, type OperationHeaders } from '../operation-headers.js';
import { ReservationScripts } from '../reservation-scripts.js';
import { RESERVATION_METRICS } from '../reservations.metrics.js';
import { chargeOf, type Decided, ReserveDto, ReserveService } from '../reserve/reserve.service.js';

/** The SET line of lua/ledger/reserve.lua. Each member costs its run two passes. */
const MOST_RESERVATIONS = 8;

/** A reserve, with the headers that a request of its own would have. */
export class MemberDto extends ReserveDto {
  @HeadersOfOperation()
  headers?: OperationHeaders;
}

export class ReservationSetDto {
  @NestedArray(() => MemberDto)
  @ArrayMinSize(2)
  @ArrayMaxSize(MOST_RESERVATIONS)
  reservations!: MemberDto[];
}

export interface GrantedSet {
  readonly setId: string;
  /** Of the members, in order. */
  readonly outcomes: readonly Outcome[];
}

/** POST /v1/reservation-sets: grants several reserves together, or none. lua/ledger/lib/all_or_none.lua says how. */
@Injectable()
export class ReservationSetService {
  private readonly counts = this.metrics.of(RESERVATION_METRICS);

  constructor(
    private readonly redis: RedisService,
    private readonly calls: ReservationScripts,
    private readonly reserves: ReserveService,
    private readonly metrics: MetricsRegistry,
  ) {}

  /**
   * @throws Refusal INVALID_REQUEST if two members have one idempotency key, or one only evaluates; MemberRefused for what a reserve
   * throws, with the member's place in `details.operation`
   */
  async reserve(call: Call, { reservations }: ReservationSetDto): Promise<GrantedSet> {
    try {
      const { isReplay, ...granted } = await this.granted(call, reservations);
      this.counts.sets.inc({ outcome: isReplay ? 'replayed' : 'granted' });
      return granted;
    } catch (error) {
      const isRefused = error instanceof Refusal || error instanceof MemberRefused;
      this.counts.sets.inc({ outcome: isRefused ? 'refused' : 'failed' });
      throw error;
    }
  }

  private async granted(
    call: Call,
    reservations: readonly MemberDto[],
  ): Promise<GrantedSet & { readonly isReplay: boolean }> {
    requireMembers(reservations);
    const scopes = reservations.map((request, place) =>
      this.counted(call, request, place, () => admittedScopes(call.caller, request.subject)),
    );
    const fingerprint = fingerprintOf({ reservations });
    const { tenantId } = call.caller;
    // The set is named after its first member, so that it can be found by its id. Its members have been created at one instant.
    const idPart = `${codeOfTenant(tenantId, this.redis.partitions)}${randomBase62(16)}`;
    const setId = `set_${idPart}`;
    const calls = reservations.map((member, place) => {
      const own = { ...call, headers: headersOf(call.headers, member.headers) };
      const charge = this.counted(call, member, place, () => chargeOf(own, member));
      return this.reserves.scriptCall(own, member, {
        fingerprint,
        setId,
        charge,
        idPart: place === 0 ? idPart : undefined,
      });
    });
    const { refused, earlierId, replies } = await this.run(calls);
    const outcomes = replies.map((reply, index) => {
      const place = refused ?? index;
      const request = reservations[place] as ReserveDto;
      return this.counted(call, request, place, () =>
        this.reserves.outcome(call, request, scopes[place] as string[], reply),
      );
    });
    return { setId: earlierId ?? setId, outcomes, isReplay: earlierId !== undefined };
  }

  private async run(
    calls: readonly NamedCall<'reserve'>[],
  ): Promise<{ refused: number | undefined; earlierId: string | undefined; replies: readonly Decided[] }> {
    const { set } = await this.calls.untilDecided(async () => {
      const set = await this.redis.scripts.callSet('reserve', calls);
      return { ...(set.replies[0] as (typeof set.replies)[number]), set };
    });
    return { ...set, replies: set.replies as readonly Decided[] };
  }

  /** What a member gives. Its refusal is counted as that of a reserve, and says which member it is. */
  private counted<Given>(call: Call, request: ReserveDto, place: number, give: () => Given): Given {
    try {
      return give();
    } catch (error) {
      this.reserves.countRefusal(call, request, error);
      throw error instanceof Refusal ? new MemberRefused(error, place) : error;
    }
  }
}

/** The refusal of a member, and so of its set. */
export class MemberRefused {
  constructor(
    readonly refusal: Refusal,
    readonly place: number,
  ) {
    refusal.details = { ...refusal.details, operation: place };
  }
}

function requireMembers(reservations: readonly MemberDto[]): void {
  const keys = new Set<string>();
  reservations.forEach(({ idempotency_key: key, dry_run: isDryRun, observe_mode: mode }, place) => {
    const fault = (member: string, words: string): Refusal =>
      new Refusal('INVALID_REQUEST', words, { field: `reservations[${place}].${member}`, operation: place });
    if (keys.has(key)) {
      throw fault('idempotency_key', 'two reservations of a set have the same idempotency_key');
    } else if (isDryRun === true) {
      throw fault('dry_run', 'a set cannot be a dry run; evaluate each of its reservations by itself');
    } else if (mode === 'OBSERVE') {
      throw fault('observe_mode', 'a set cannot be observed; send each of its reservations by itself');
    }
    keys.add(key);
  });
}
