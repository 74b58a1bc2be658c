// npm run up: from a clean clone to a serving Holdfast and a demonstration on screen. `--once` ends after the demonstration.
// Exit codes: 0 ended as asked; 1 not started, for the reason that is printed.
import { setTimeout as delay } from 'node:timers/promises';
import { LISTENING, startBuilt } from './built-service.mjs';
import { adminKeyFile, adminKeyOf, dataDir, given } from './environment.mjs';
import {
  SetupError,
  checkNode,
  ensureBuild,
  ensureDependencies,
  ensureRedis,
  explanationOf,
  importBuilt,
  runCommand,
  say,
} from './install.mjs';

const READY_TIMEOUT_MS = 60_000;
/** npm and the terminal both deliver one ^C; a person who means a second one needs longer than this. */
const SECOND_SIGNAL_AFTER_MS = 1000;
const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

/** @typedef {import('./built-service.mjs').LogEntry} LogEntry */

runCommand(async () => {
  const once = wantsOnce(process.argv.slice(2));
  checkNode();
  ensureDependencies();
  ensureRedis();
  ensureBuild();
  const log = logRelay(given('LOG_LEVEL').toLowerCase());
  const server = startBuilt({ ...process.env, LOG_LEVEL: log.level }, log);
  stopOnSignal(server);
  const listening = await server.listening;
  if (listening === undefined) {
    // Holdfast has said in its own line why it did not start.
    return server.ended;
  }
  const baseUrl = baseUrlOf(listening);
  const outcome = await Promise.race([server.ended, demonstrate(baseUrl, once)]);
  if (typeof outcome === 'number') {
    return outcome || 1;
  }
  if (once) {
    const code = await server.stop();
    return outcome ? code : 1;
  }
  say(`\nHoldfast keeps serving on ${baseUrl}; ^C stops it.`);
  return server.ended;
});

/** @param {string[]} args */
function wantsOnce(args) {
  const unknown = args.find((arg) => arg !== '--once');
  if (unknown !== undefined) {
    throw new SetupError(`${JSON.stringify(unknown)} is no option of npm run up; the only one is --once`);
  }
  return args.length > 0;
}

/** @param {ReturnType<typeof startBuilt>} server */
function stopOnSignal({ child, stop }) {
  /** @type {number | undefined} */
  let stoppedAt;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      if (stoppedAt === undefined) {
        stoppedAt = performance.now();
        void stop();
      } else if (performance.now() - stoppedAt > SECOND_SIGNAL_AFTER_MS) {
        child.kill('SIGTERM');
      }
    });
  }
}

/**
 * Shows the log of the service on this terminal: with LOG_LEVEL set, its JSON lines from that level on, else warnings and errors as
 * plain text. The service logs at least from `info` on, because this command waits for the line about the open port.
 * @param {string} asked the value of LOG_LEVEL, or an empty string
 */
function logRelay(asked) {
  const isQuieter = LEVELS.indexOf(asked) > LEVELS.indexOf('info');
  const from = LEVELS.indexOf(asked === '' ? 'warn' : asked);
  // Errors during the start are shown only if it succeeds. A failed start prints its own line on stderr.
  /** @type {LogEntry[] | undefined} */
  let heldBack = [];
  const tell = (/** @type {LogEntry} */ { time, level, msg, job, reason, lasted_ms, err }) => {
    const details = [
      job,
      err?.message ?? reason,
      lasted_ms === undefined ? undefined : `after ${lasted_ms} ms`,
    ]
      .filter((detail) => detail !== undefined)
      .join(', ');
    say(`holdfast: ${time} ${level}: ${msg}${details === '' ? '' : ` (${details})`}`);
  };
  const show = (/** @type {string} */ line, /** @type {LogEntry | undefined} */ entry) => {
    if (heldBack !== undefined && entry?.msg === LISTENING) {
      heldBack.forEach(tell);
      heldBack = undefined;
    }
    if (asked !== '' || entry === undefined) {
      if (line !== '' && (entry === undefined || LEVELS.indexOf(entry.level) >= from)) {
        say(line);
      }
    } else if (LEVELS.indexOf(entry.level) >= from && entry.from !== 'redis') {
      // Leaves out what the embedded Redis logs, such as warnings about kernel settings.
      if (entry.level === 'warn' || heldBack === undefined) {
        tell(entry);
      } else {
        heldBack.push(entry);
      }
    }
  };
  return { level: asked === '' || isQuieter ? 'info' : asked, show };
}

/**
 * The port that serves everything, operators included.
 * @param {LogEntry} listening
 */
function baseUrlOf({ host, port, admin_port: adminPort }) {
  const everyAddress = host === undefined || ['0.0.0.0', '::'].includes(host);
  const address = everyAddress ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host;
  return `http://${address}:${adminPort ?? port}`;
}

/**
 * Runs the demonstration and reports a failure. Resolves with whether it succeeded.
 * @param {string} baseUrl
 * @param {boolean} once
 */
async function demonstrate(baseUrl, once) {
  const { nextSteps, runDemo } = /** @type {typeof import('../src/cli/demo.ts')} */ (
    await importBuilt('cli/demo.js')
  );
  const { DemoError } = /** @type {typeof import('../src/cli/api.ts')} */ (await importBuilt('cli/api.js'));
  const folder = dataDir();
  const sweepIntervalMs = Number(process.env.SWEEP_INTERVAL_MS) || 1000;
  try {
    await waitUntilReady(baseUrl);
    say(`\nHoldfast serves ${baseUrl}, and its data is in ${folder}.\n`);
    const { runId, apiKey } = await runDemo({
      baseUrl,
      adminKey: adminKeyOf(folder),
      dataDir: folder,
      sweepIntervalMs,
      print: say,
    });
    if (!once) {
      say(
        nextSteps({
          baseUrl,
          runId,
          apiKey,
          adminKeyFile: given('ADMIN_API_KEY') ? undefined : adminKeyFile(folder),
        }),
      );
    }
    return true;
  } catch (error) {
    const why = error instanceof DemoError ? error.message : explanationOf(error);
    process.stderr.write(`holdfast: the demonstration failed: ${why}\n`);
    return false;
  }
}

/** @param {string} baseUrl */
async function waitUntilReady(baseUrl) {
  const deadline = performance.now() + READY_TIMEOUT_MS;
  let last = 'no answer';
  while (performance.now() < deadline) {
    try {
      const response = await fetch(`${baseUrl}/health/ready`, { signal: AbortSignal.timeout(5000) });
      last = `${response.status} ${await response.text()}`;
      if (response.ok) {
        return;
      }
    } catch (error) {
      // The error of fetch only says that it failed. Its cause says why.
      const { cause, message } = /** @type {Error} */ (error);
      last = cause instanceof Error ? cause.message : message;
    }
    await delay(100);
  }
  throw new SetupError(`Holdfast was not ready within ${READY_TIMEOUT_MS / 1000} s (${last})`);
}
