import type { Script } from '../../src/redis/script-library.js';
import type { Command, Judge } from './world-connection.js';

/**
 * The events that the dispatcher's scripts may emit. Those of the ledger come from the ledger's own scripts.
 */
const TOLD: Readonly<Record<string, string>> = {
  settle_delivery: 'system.webhook_delivery_failed',
  record_delivery_outcome: 'webhook.disabled',
};

/** The model's verdict on a script that the service runs in the background. */
export function judgeService({ name }: Script, args: Command['args']): Judge {
  // The function, the number of keys and the keys precede the script's own arguments.
  const own = args.slice(2 + Number(args[1])).map(String);
  return (ledger, [reply = []], fresh, now) => {
    if (name === 'expire_page') {
      const [, , ...ids] = own;
      ledger.judge([{ verdict: (model) => model.expirePage(ids, now), reply }], fresh, now);
    } else if (name === 'expire') {
      ledger.judge([{ verdict: (model) => model.expire(own[0] as string, now), reply }], fresh, now);
    } else {
      const wrong = fresh.find(({ fields }) => fields['ty'] !== TOLD[name]);
      if (wrong !== undefined) {
        throw new Error(`${name} must not emit ${wrong.fields['ty']}`);
      }
    }
  };
}
