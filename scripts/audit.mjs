// npm run audit: asks the registry for advisories on the dependencies that ship. Each finding fails, until it is mended or explained below.
// A registry that answers no advisories fails nothing, and the output says that nothing was checked.
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
 * By the address of an advisory: why it does no harm here.
 * @type {ReadonlyMap<string, string>}
 */
const EXPLAINED = new Map();

/**
 * @param {string} output of `npm audit --json`
 * @param {ReadonlyMap<string, string>} [explained]
 * @returns {{ code: number, lines: string[] }} the exit code, and what to print
 */
export function judge(output, explained = EXPLAINED) {
  const report = parsed(output);
  if (report?.vulnerabilities === undefined) {
    return {
      code: 0,
      lines: [
        `audit: NOTHING WAS CHECKED, the registry gave no advisories: ${report?.message ?? report?.error?.summary ?? 'no report'}`,
      ],
    };
  }
  // What depends on a vulnerable package is listed too, with that package's name instead of an advisory.
  const advisories = Object.values(report.vulnerabilities).flatMap(({ via }) =>
    via.filter((one) => typeof one === 'object'),
  );
  const open = advisories.filter(({ url }) => !explained.has(url));
  return {
    code: open.length === 0 ? 0 : 1,
    lines: [
      ...advisories.map(
        ({ name, severity, title, url }) =>
          `audit: ${name}, ${severity}: ${title} (${url})${explained.has(url) ? `: ${explained.get(url)}` : ''}`,
      ),
      `audit: ${advisories.length} findings, ${open.length} of them not explained`,
    ],
  };
}

/**
 * @param {string} output
 * @returns {AuditReport | undefined}
 */
function parsed(output) {
  try {
    return /** @type {AuditReport} */ (parseJson(output));
  } catch {
    return undefined;
  }
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
