import { SUBJECT, TENANT, UNIT } from './demo-scopes.js';

export interface NextStepsOptions {
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly runId: string;
  /** Where the generated admin key is; absent when the person has given one as ADMIN_API_KEY. */
  readonly adminKeyFile?: string | undefined;
}

/** Lines to paste into a shell. No comments among them: an interactive zsh takes those for commands. */
export function nextSteps({ baseUrl, apiKey, runId, adminKeyFile }: NextStepsOptions): string {
  const key = '-H "X-Cycles-API-Key: $KEY"';
  const json = "-H 'Content-Type: application/json'";
  const reserve = {
    idempotency_key: `hold-${runId}`,
    subject: SUBJECT,
    action: { kind: 'llm.completion', name: 'by-hand' },
    estimate: { unit: UNIT, amount: 1500 },
    ttl_ms: 60_000,
  };
  const commit = { idempotency_key: `commit-${runId}`, actual: { unit: UNIT, amount: 900 } };
  const adminKey =
    adminKeyFile === undefined ? '$ADMIN_API_KEY' : `$(cat '${adminKeyFile.replaceAll("'", `'\\''`)}')`;
  return `
Now you. Paste these two first:

    URL=${baseUrl}
    KEY=${apiKey}

What is left at each scope:

    curl -sw '\\n' "$URL/v1/balances?tenant=${TENANT}&include_children=true" ${key}

Hold 1,500 tokens for a minute; the same line again replays the answer and holds nothing more:

    HOLD=$(curl -s "$URL/v1/reservations" ${key} ${json} -d '${JSON.stringify(reserve)}'); echo "$HOLD"

Commit the 900 really used, within that minute:

    ID=$(echo "$HOLD" | sed 's/.*"reservation_id":"\\([^"]*\\)".*/\\1/')
    curl -sw '\\n' "$URL/v1/reservations/$ID/commit" ${key} ${json} -d '${JSON.stringify(commit)}'

The operator's view, and the API to read in a browser at ${baseUrl}/docs:

    curl -sw '\\n' "$URL/v1/admin/tenants" -H "X-Admin-API-Key: ${adminKey}"
    curl -s "$URL/metrics" -H "X-Admin-API-Key: ${adminKey}" | grep cycles_reservations`;
}
