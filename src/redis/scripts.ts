import { Cluster, type Redis } from 'ioredis';
import { Tracing } from '../telemetry/index.js';
import { toStoreError } from './errors.js';
import { GroupedCalls, groupOf } from './grouped-calls.js';
import { keyRevokedChannel } from './keyspace.js';
import { metaKey } from './meta-key.js';
import {
  type Arguments,
  FunctionCall,
  type NamedArgs,
  type NamedKeys,
  type Reply,
  type ScriptArgs,
  type ScriptContracts,
  type ScriptKeys,
  type ScriptName,
  type ScriptReply,
  spanOfCall,
  statusIn,
} from './script-call.js';
import { type Attestable, setReply, type SetName, type SetReply, stampedReply } from './script-replies.js';
import { deleteOtherVersions, loadInto } from './library-loading.js';
import { type Library, LIBRARY, libraryText, type Runnable, type Script } from './script-library.js';
import { LIBRARY_COMMANDS } from './script-types.js';

export type { Arguments, Reply } from './script-call.js';

/** One call of a script, for a pipeline of many. */
export interface NamedCall<Name extends ScriptName> {
  readonly keys: NamedKeys<Name>;
  readonly args: NamedArgs<Name>;
}

/** The scripts with an ATTESTED line in their headers. */
type AttestedName = {
  [Name in ScriptName]: ScriptContracts[Name]['attested'] extends true ? Name : never;
}[ScriptName];

function isUnknownFunction(error: unknown): boolean {
  return error instanceof Error && /^ERR Function not found/i.test(error.message);
}

function decoded<Decoded>(script: Script, reply: Reply): Decoded | Error {
  try {
    return script.decode(reply) as Decoded;
  } catch (error) {
    return error as Error;
  }
}

/**
 * The scripts by name. `load` loads them into every master as functions of one library, and calls use the names
 * of the functions. Redis keeps functions with its data, so they survive a restart and a failover. If a server has lost them (FUNCTION FLUSH,
 * a new master, a full one), the registry sends the library's text and loads the library again. The names change with the
 * code, so two versions of the service can share a Redis. Only a start deletes libraries of other versions; otherwise two running
 * versions would keep deleting each other's.
 */
export class ScriptRegistry {
  private loading: Promise<void> | undefined;
  private audited: (requestId: string) => void = () => undefined;
  private readonly groups: GroupedCalls;
  /** Whether evidence is issued, so that outcomes must have stamps. */
  private attests = false;
  private tracing = new Tracing();

  /**
   * @param library that of production, or the one with a test clock
   * @param textRan called for each call of a script whose function the server did not have
   * @param groupRan called for each run of a grouped script, with the number of its calls
   * @param waitMs how long a call of a grouped script may wait before it is sent
   */
  constructor(
    private readonly client: Redis | Cluster,
    private readonly library: Library = LIBRARY,
    private readonly textRan: () => void = () => undefined,
    groupRan: (script: string, calls: number) => void = () => undefined,
    waitMs?: number,
  ) {
    this.groups = new GroupedCalls(
      (script, keys, args) => this.sendAlone(script, keys, args),
      ({ name }, calls) => groupRan(name, calls),
      waitMs,
    );
  }

  /** Calls the listener with the id of each request for which a script wrote an audit row. */
  onAudited(listener: (requestId: string) => void): void {
    this.audited = listener;
  }

  /** From now on, `callAttestable` returns stamps. */
  attestOutcomes(): void {
    this.attests = true;
  }

  /** From now on, each call inside a span is a span of its own. */
  traceCalls(tracing: Tracing): void {
    this.tracing = tracing;
  }

  /** Removes what a script that may write audit rows appends to its reply: the id of the request that it wrote one for, or ''. */
  private plain({ audits }: Runnable, reply: unknown): Reply {
    const texts = reply as Reply;
    const requestId = audits ? texts.pop() : undefined;
    if (requestId !== undefined && requestId !== '') {
      this.audited(requestId);
    }
    return texts;
  }

  /**
   * Loads the library into every master that does not have it, so a script that does not compile stops the start, and deletes those of other
   * versions. An instance of another version loads its own again at its next call.
   * @throws StoreUnavailable if a master cannot be reached.
   */
  async load(): Promise<void> {
    await this.eachMaster(async (master) => {
      await deleteOtherVersions(master, this.library);
      await loadInto(master, this.library);
    });
  }

  /** Loads the library where a master has lost it. @throws StoreUnavailable if a master cannot be reached. */
  private async restore(): Promise<void> {
    await this.eachMaster((master) => loadInto(master, this.library));
  }

  private async eachMaster(work: (master: Redis) => Promise<void>): Promise<void> {
    try {
      await Promise.all(this.masters().map(work));
    } catch (error) {
      throw toStoreError(error);
    }
  }

  private masters(): Redis[] {
    return this.client instanceof Cluster ? this.client.nodes('master') : [this.client];
  }

  /**
   * Runs a script that may write on every master.
   * @returns the commands that scripts use and this user may not run on one of them
   * @throws StoreUnavailable if a master would refuse a script now
   */
  async probe(): Promise<string[]> {
    const script = this.script('probe');
    const args = [metaKey(), keyRevokedChannel(), ...LIBRARY_COMMANDS];
    const denied = await Promise.all(
      this.masters().map((master) => this.sendAlone(script, [], args, master)),
    );
    return [...new Set(denied.flat())];
  }

  /**
   * Runs one script.
   * @returns the script's reply, by the names in its header.
   * @throws StoreUnavailable if Redis cannot answer. Any other error is a broken invariant or a defect.
   */
  call<Name extends ScriptName>(
    name: Name,
    keys: NamedKeys<Name>,
    args: NamedArgs<Name>,
  ): Promise<ScriptReply<Name>> {
    const script = this.script(name);
    const reply = this.sendTraced(script, script.keysOf(keys), script.argsOf(args));
    return reply.then(script.decode) as Promise<ScriptReply<Name>>;
  }

  /**
   * Runs one script, with a stamp in its reply if outcomes are attested.
   * @throws as `call` does.
   */
  callAttestable<Name extends AttestedName>(
    name: Name,
    keys: NamedKeys<Name>,
    args: NamedArgs<Name>,
  ): Promise<ScriptReply<Name> & Attestable> {
    return this.attests ? this.callAttested(name, keys, args) : this.call(name, keys, args);
  }

  private async callAttested<Name extends AttestedName>(
    name: Name,
    keys: NamedKeys<Name>,
    args: NamedArgs<Name>,
  ): Promise<ScriptReply<Name> & Attestable> {
    const script = this.script(name);
    const attested = script.attested as Runnable;
    const reply = await this.sendTraced(attested, script.keysOf(keys), script.argsOf(args));
    return stampedReply(script, reply) as ScriptReply<Name> & Attestable;
  }

  /**
   * Runs calls of one script in a run of their own, which grants all of them or none. With stamps if outcomes are attested.
   * @throws as `call` does.
   */
  async callSet<Name extends SetName>(
    name: Name,
    calls: readonly NamedCall<Name>[],
  ): Promise<SetReply<Name>> {
    const script = this.script(name);
    const set = script.set as NonNullable<Script['set']>;
    const { keys, args } = groupOf(
      calls.map((call) => ({ keys: script.keysOf(call.keys), args: script.argsOf(call.args) })),
    );
    const reply = await this.sendTraced(this.attests ? set.attested : set.plain, keys, args);
    return setReply<Name>(script, reply, this.attests);
  }

  /**
   * Runs one script with keys and arguments in the order of its header.
   * @returns the script's reply, its status word first.
   * @throws StoreUnavailable if Redis cannot answer. Any other error is a broken invariant or a defect.
   */
  async run<Name extends ScriptName>(
    name: Name,
    keys: ScriptKeys<Name>,
    args: ScriptArgs<Name>,
  ): Promise<Reply> {
    return this.sendTraced(this.script(name), keys, args);
  }

  private script(name: ScriptName): Script {
    return this.library.scripts.get(name) as Script;
  }

  /** The span includes the wait for a run that other calls share. */
  private sendTraced(script: Runnable, keys: Arguments, args: Arguments): Promise<Reply> {
    const span = spanOfCall(this.tracing, script);
    if (span === undefined) {
      return this.send(script, keys, args);
    }
    return this.tracing.during(span, async () => {
      const reply = await this.send(script, keys, args);
      span.set({ 'holdfast.outcome': statusIn(reply) });
      return reply;
    });
  }

  /** Overridden by tests, which run scripts with a clock they control. */
  protected send(script: Runnable, keys: Arguments, args: Arguments): Promise<Reply> {
    return script.group === undefined
      ? this.sendAlone(script, keys, args)
      : this.groups.call(script, keys, args);
  }

  private async sendAlone(
    script: Runnable,
    keys: Arguments,
    args: Arguments,
    to: Redis | Cluster = this.client,
  ): Promise<Reply> {
    try {
      return this.plain(script, await to.sendCommand(new FunctionCall(script.functionName, keys, args)));
    } catch (error) {
      if (!isUnknownFunction(error)) {
        throw toStoreError(error);
      }
    }
    return this.sendText(script, keys, args, to);
  }

  private async sendText(
    script: Runnable,
    keys: Arguments,
    args: Arguments,
    to: Redis | Cluster = this.client,
  ): Promise<Reply> {
    this.textRan();
    // The call does not wait for this. If it fails, the next call tries again.
    this.loading ??= this.restore()
      .catch(() => undefined)
      .finally(() => (this.loading = undefined));
    try {
      return this.plain(
        script,
        await to.eval(
          libraryText(script.flags, this.library.body),
          keys.length,
          ...keys,
          ...args,
          script.functionName,
        ),
      );
    } catch (error) {
      throw toStoreError(error);
    }
  }

  /**
   * Runs one script many times, in one round trip, or in as few runs as a grouped script needs. All keys must belong to one partition.
   * @returns a reply or an error for each call, in order. A failed call does not affect the others.
   * @throws StoreUnavailable if a pipeline as a whole could not be sent; for a grouped script, it is the error of each call.
   */
  async callMany<Name extends ScriptName>(
    name: Name,
    calls: readonly NamedCall<Name>[],
  ): Promise<(ScriptReply<Name> | Error)[]> {
    const script = this.script(name);
    const sent = calls.map(({ keys, args }) => ({ keys: script.keysOf(keys), args: script.argsOf(args) }));
    const span = spanOfCall(this.tracing, script, calls.length);
    const replies = await this.tracing.during(span, () => this.sendMany(script, sent));
    return replies.map((reply) =>
      reply instanceof Error ? reply : decoded<ScriptReply<Name>>(script, reply),
    );
  }

  private async sendMany(
    script: Script,
    calls: readonly { readonly keys: Arguments; readonly args: Arguments }[],
  ): Promise<(Reply | Error)[]> {
    if (script.group !== undefined) {
      const sent = calls.map(({ keys, args }) => this.send(script, keys, args));
      return Promise.all(sent.map((reply) => reply.catch((error: unknown) => error as Error)));
    }
    const pipeline = this.client.pipeline();
    for (const { keys, args } of calls) {
      pipeline.fcall(script.functionName, keys.length, ...keys, ...args);
    }
    const results = await pipeline.exec().catch((error: unknown) => {
      throw toStoreError(error);
    });
    const replies: (Reply | Error)[] = [];
    for (const [index, { keys, args }] of calls.entries()) {
      const [error, reply] = results?.[index] ?? [new Error('the pipeline ended without a reply'), null];
      if (isUnknownFunction(error)) {
        replies.push(await this.sendText(script, keys, args).catch((failure: unknown) => failure as Error));
      } else {
        replies.push(error === null ? this.plain(script, reply) : (toStoreError(error) as Error));
      }
    }
    return replies;
  }
}
