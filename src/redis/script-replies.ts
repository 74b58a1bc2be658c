import { textsIn } from './grouped-calls.js';
import type { Reply, ScriptContracts, ScriptName, ScriptReply } from './script-call.js';
import type { Script } from './script-library.js';

/** What comes with the reply of an attested script. */
export interface Attestable {
  /** When and in which trace the outcome was decided, if it can be attested; see lua/lib/attest.lua. */
  readonly stamp?: string;
}

/** The reply of an attested script, whose last text is the stamp. */
export function stampedReply(script: Script, reply: Reply): object {
  const stamp = reply.pop();
  return { ...script.decode(reply), stamp };
}

/** The scripts with a SET line in their headers. */
export type SetName = {
  [Name in ScriptName]: ScriptContracts[Name]['set'] extends true ? Name : never;
}[ScriptName];

/** What a run of calls answers that are granted together or not at all. */
export interface SetReply<Name extends ScriptName> {
  /** The place of the call that was refused, counted from 0. Its reply is the only one. */
  readonly refused: number | undefined;
  /** The id of an earlier set with the same calls, which this is a replay of. */
  readonly earlierId: string | undefined;
  readonly replies: readonly (ScriptReply<Name> & Attestable)[];
}

/** From the texts that lua/ledger/lib/all_or_none.lua returns. */
export function setReply<Name extends ScriptName>(
  script: Script,
  [refused = '', earlierId = '', ...texts]: Reply,
  isAttested: boolean,
): SetReply<Name> {
  const replies = texts.map((text) =>
    isAttested ? stampedReply(script, textsIn(text)) : script.decode(textsIn(text)),
  );
  return {
    refused: refused === '' ? undefined : Number(refused),
    earlierId: earlierId === '' ? undefined : earlierId,
    replies: replies as unknown as SetReply<Name>['replies'],
  };
}
