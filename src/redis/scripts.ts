import { Cluster, type Redis } from 'ioredis';
import { toStoreError } from './errors.js';
import { readScripts, type Script } from './script-source.js';
import type { ScriptArgs, ScriptKeys, ScriptName } from './script-signatures.js';

export type Reply = string[];

/** One call of a script, for a pipeline of many. */
export interface ScriptCall<Name extends ScriptName> {
  readonly keys: ScriptKeys<Name>;
  readonly args: ScriptArgs<Name>;
}

function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}

/** Read once a process: the files do not change while it runs, and there is a registry for each connection that calls scripts. */
let known: Map<string, Script> | undefined;

/**
 * The scripts by name. They are read and checked when this is made, loaded into every master by `load`, and called by
 * their hash; a server that has lost them (restart, failover, SCRIPT FLUSH) is given the text with the next call.
 */
export class ScriptRegistry {
  private readonly scripts = (known ??= readScripts());

  constructor(private readonly client: Redis | Cluster) {}

  /**
   * Loads every script into every master, so that a script which does not compile stops the start.
   * @throws StoreUnavailable when a master cannot be reached.
   */
  async load(): Promise<void> {
    const masters = this.client instanceof Cluster ? this.client.nodes('master') : [this.client];
    const loads = masters.flatMap((master) => [...this.scripts.values()].map(({ source }) => master.script('LOAD', source)));
    try {
      await Promise.all(loads);
    } catch (error) {
      throw toStoreError(error);
    }
  }

  /**
   * Runs one script.
   * @returns the script's reply, its status word first.
   * @throws StoreUnavailable when Redis cannot answer; any other error is a broken invariant or a defect.
   */
  async run<Name extends ScriptName>(name: Name, keys: ScriptKeys<Name>, args: ScriptArgs<Name>): Promise<Reply> {
    const script = this.scripts.get(name) as Script;
    try {
      return (await this.client.evalsha(script.sha, keys.length, ...keys, ...args)) as Reply;
    } catch (error) {
      if (!isNoScript(error)) {
        throw toStoreError(error);
      }
    }
    try {
      return (await this.client.eval(script.source, keys.length, ...keys, ...args)) as Reply;
    } catch (error) {
      throw toStoreError(error);
    }
  }

  /**
   * Runs one script many times in one round trip. All keys must belong to one partition.
   * @returns a reply or an error for each call, in order: one call's failure leaves the others alone.
   * @throws StoreUnavailable when the pipeline as a whole could not be sent.
   */
  async runMany<Name extends ScriptName>(name: Name, calls: readonly ScriptCall<Name>[]): Promise<(Reply | Error)[]> {
    const script = this.scripts.get(name) as Script;
    const pipeline = this.client.pipeline();
    for (const { keys, args } of calls) {
      pipeline.evalsha(script.sha, keys.length, ...keys, ...args);
    }
    const results = await pipeline.exec().catch((error: unknown) => {
      throw toStoreError(error);
    });
    const replies: (Reply | Error)[] = [];
    for (const [index, { keys, args }] of calls.entries()) {
      const [error, reply] = results?.[index] ?? [new Error('the pipeline ended without a reply'), null];
      if (isNoScript(error)) {
        // One at a time: the first run gives the server the text, and the others find it.
        replies.push(await this.run(name, keys, args).catch((failure: unknown) => failure as Error));
      } else {
        replies.push(error === null ? (reply as Reply) : (toStoreError(error) as Error));
      }
    }
    return replies;
  }
}
