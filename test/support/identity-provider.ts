import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath, pathToFileURL } from 'node:url';

const here = (file: string): string => fileURLToPath(new URL(file, import.meta.url));

export interface ProviderSetup {
  /** Of the service, whose console logs in here. */
  readonly url: string;
  /** The claims of each account by its login. */
  readonly accounts: Readonly<Record<string, object>>;
  /** Whether tokens have the claims, too, and not only the endpoint for user information. */
  readonly claimsInIdToken?: boolean;
}

/** A provider in a process of its own. */
export class TestProvider {
  readonly settings: Readonly<Record<string, string>>;

  private constructor(
    private readonly child: ChildProcess,
    readonly issuer: string,
  ) {
    this.settings = {
      OIDC_ISSUER: issuer,
      OIDC_CLIENT_ID: 'holdfast',
      OIDC_CLIENT_SECRET: 'a-secret-of-the-client',
      OIDC_ROLE_CLAIM: 'groups',
      OIDC_ROLES: 'admin=owners,operator=platform,viewer=everybody,viewer=auditors',
    };
  }

  /** @param clockOffsetMs by how much its clock is ahead */
  static async start(clockOffsetMs = 0): Promise<TestProvider> {
    const clock = pathToFileURL(here('./stepping-clock.mjs')).href;
    const child = fork(here('./identity-provider-process.mjs'), {
      // Its warnings are about what a test provider may do.
      silent: true,
      execArgv: clockOffsetMs === 0 ? [] : ['--import', clock],
      env: { PATH: process.env['PATH'], CLOCK_OFFSET_MS: String(clockOffsetMs) },
    });
    const [{ port }] = (await once(child, 'message')) as [{ port: number }];
    return new TestProvider(child, `http://127.0.0.1:${port}`);
  }

  /** Serves from now on. */
  async serve({ url, accounts, claimsInIdToken = false }: ProviderSetup): Promise<void> {
    this.child.send({
      redirectUri: `${url}/console/signed-in`,
      logOutUri: `${url}/console/`,
      accounts,
      claimsInIdToken,
    });
    await once(this.child, 'message');
  }

  /** Freezes it: connections are accepted, and get no answer. */
  freeze(): void {
    this.child.kill('SIGSTOP');
  }

  thaw(): void {
    this.child.kill('SIGCONT');
  }

  async stop(): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      this.child.kill('SIGKILL');
      await once(this.child, 'close');
    }
  }
}

/** Follows the provider's pages as a browser does, and returns the query with which it sends the browser back. */
export async function passProvider(url: string, login: string, decision = 'consent'): Promise<string> {
  const cookies = new Map<string, string>();
  let next = url;
  let form: URLSearchParams | undefined;
  for (let step = 0; step < 12; step += 1) {
    const answer = await fetch(next, {
      redirect: 'manual',
      headers: { cookie: [...cookies].map((pair) => pair.join('=')).join('; ') },
      ...(form === undefined ? {} : { method: 'POST', body: form }),
    });
    for (const cookie of answer.headers.getSetCookie()) {
      const [name = '', value = ''] = (cookie.split(';', 1)[0] as string).split('=', 2);
      cookies.set(name, value);
    }
    const location = answer.headers.get('location');
    form = undefined;
    if (location !== null) {
      next = new URL(location, next).href;
      if (new URL(next).pathname === '/console/signed-in') {
        return new URL(next).search.slice(1);
      }
      continue;
    }
    const text = await answer.text();
    const prompt = /name="prompt" value="(\w+)"/.exec(text)?.[1];
    if (prompt === undefined) {
      throw new Error(`the provider answers ${answer.status} ${text}`);
    }
    if (decision === 'abort') {
      next = `${next}/abort`;
    } else {
      form = new URLSearchParams({ prompt, login, password: 'any' });
    }
  }
  throw new Error('the provider does not come to an end');
}
