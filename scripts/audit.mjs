// npm run audit: checks the production dependencies for advisories. Fails if one is neither fixed nor accepted below.
// If the registry returns no report, the command succeeds, and its output says that nothing was checked.
// It has no options. Exit codes: 0 nothing found, or nothing checked; 1 an advisory.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseJson } from './install.mjs';

/** @typedef {{ name: string, severity: string, title: string, url: string }} Advisory */
/**
 * @typedef {{
 *   vulnerabilities?: Record<string, { via: (string | Advisory)[] }>,
 *   message?: string,
 *   error?: { summary?: string },
 * }} AuditReport
 */

/**
 * Accepted advisories: from the URL of each to why it does not affect Holdfast.
 * @type {ReadonlyMap<string, string>}
 */
const ACCEPTED = new Map();

/**
 * @param {string} output of `npm audit --json`
 * @param {ReadonlyMap<string, string>} [accepted]
 * @returns {{ code: number, lines: string[] }} the exit code, and what to print
 */
export function judge(output, accepted = ACCEPTED) {
  /** @type {AuditReport | undefined} */
  let report;
  try {
    report = /** @type {AuditReport} */ (parseJson(output));
  } catch {
    // npm had no report to print.
  }
  if (report?.vulnerabilities === undefined) {
    return {
      code: 0,
      lines: [
        `audit: NOTHING WAS CHECKED, the registry returned no advisories: ${report?.message ?? report?.error?.summary ?? 'no report'}`,
      ],
    };
  }
  // Packages that depend on a vulnerable one are listed too, with its name instead of an advisory.
  const advisories = Object.values(report.vulnerabilities).flatMap(({ via }) =>
    via.filter((one) => typeof one === 'object'),
  );
  const open = advisories.filter(({ url }) => !accepted.has(url));
  return {
    code: open.length === 0 ? 0 : 1,
    lines: [
      ...advisories.map(
        ({ name, severity, title, url }) =>
          `audit: ${name}, ${severity}: ${title} (${url})${accepted.has(url) ? `: ${accepted.get(url)}` : ''}`,
      ),
      `audit: ${advisories.length} findings, ${open.length} of them not accepted`,
    ],
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { stdout } = spawnSync('npm', ['audit', '--json', '--omit=dev'], {
    encoding: 'utf8',
    cwd: fileURLToPath(new URL('..', import.meta.url)),
  });
  const { code, lines } = judge(stdout ?? '');
  process.stdout.write(`${lines.join('\n')}\n`);
  process.exitCode = code;
}
