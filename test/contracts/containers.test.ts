import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { expect, test } from '@jest/globals';
import { CONFIG_VARIABLES } from '../../src/config/index.js';

/* No container engine runs where these tests do, so this checks what the files say, not what an engine makes of them. */

interface Service {
  readonly image?: string;
  readonly build?: string;
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly logging?: { readonly driver: string; readonly options: Readonly<Record<string, string>> };
}

interface Compose {
  readonly services: Readonly<Record<'redis' | 'holdfast', Service>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

const { load } = createRequire(import.meta.url)('js-yaml') as { load: (text: string) => unknown };
const read = (name: string): string => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8');
const { services, volumes } = load(read('docker-compose.yml')) as Compose;
const dockerfile = read('Dockerfile');

test('the compose Redis keeps what it acknowledges and evicts nothing', () => {
  const words = services.redis.command ?? [];
  const setting = (name: string): string | undefined => words[words.indexOf(`--${name}`) + 1];
  expect(words[0]).toBe('redis-server');
  expect(setting('appendonly')).toBe('yes');
  expect(setting('appendfsync')).toBe('${REDIS_APPENDFSYNC:-everysec}');
  expect(setting('maxmemory-policy')).toBe('noeviction');
  expect(setting('lazyfree-lazy-expire')).toBe('yes');
  expect(services.redis.image).toMatch(/^redis:7\./);
  const [volume, path] = services.redis.volumes?.[0]?.split(':') ?? [];
  expect(path).toBe('/data');
  expect(Object.keys(volumes)).toContain(volume);
});

test('the compose Holdfast waits for its Redis, and does not start without its keys', () => {
  const { build, environment = {}, depends_on: dependsOn, ports } = services.holdfast;
  expect(build).toBe('.');
  expect(environment['REDIS_URL']).toBe('redis://redis:6379');
  for (const name of ['ADMIN_API_KEY', 'WEBHOOK_SECRET_ENCRYPTION_KEY']) {
    expect(environment[name]).toMatch(new RegExp(`^\\$\\{${name}:\\?.+\\}$`));
  }
  expect(dependsOn?.['redis']?.condition).toBe('service_healthy');
  expect(services.redis.healthcheck?.test).toEqual(['CMD', 'redis-cli', 'ping']);
  expect(ports).toEqual(['${PORT:-7878}:7878']);
  const known = CONFIG_VARIABLES.map(({ name }) => name);
  expect(Object.keys(environment).filter((name) => !known.includes(name))).toEqual([]);
});

test('no container writes logs without bound', () => {
  for (const { logging } of Object.values(services)) {
    expect(logging).toEqual({ driver: 'json-file', options: { 'max-size': '10m', 'max-file': '3' } });
  }
});

test('the image runs node itself as an ordinary user, from a build of its own', () => {
  const final = dockerfile.slice(dockerfile.lastIndexOf('\nFROM '));
  expect(dockerfile.match(/^FROM node:24-\S+/gm)).toHaveLength(2);
  expect(final).toMatch(/^USER node$/m);
  // The exec form: a shell as PID 1 would swallow SIGTERM.
  expect(final).toMatch(/^CMD \["node", "dist\/main\.js"\]$/m);
  expect(final).toMatch(/^COPY lua \.\/lua$/m);
  expect(final).toContain('http://127.0.0.1:${process.env.PORT || 7878}/health/ready');
  expect(final).not.toContain('localhost:');
});

test('what the image is built from is not kept from the build', () => {
  const ignored = read('.dockerignore').split('\n').filter((line) => line !== '');
  const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, sources]) => (sources as string).split(' '));
  expect(copied).toEqual(expect.arrayContaining(['package.json', 'package-lock.json', 'tsconfig.json', 'nest-cli.json', 'src', 'lua']));
  expect(copied.filter((source) => ignored.includes(source))).toEqual([]);
  expect(ignored).toEqual(expect.arrayContaining(['node_modules', '.data', '.git']));
});
