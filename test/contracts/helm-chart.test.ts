import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { Ajv } from 'ajv';
import { parse } from 'yaml';
import { HOLDFAST_VERSION } from '../../src/config/config.js';
import { CONSTANTS } from '../../src/config/constants.js';
import { CONFIG_VARIABLES } from '../../src/config/variables.js';
import { hasHelm, type Manifest, merged, render, renderWithHelm } from '../support/helm-chart.js';

const CHART = fileURLToPath(new URL('../../deploy/helm/holdfast', import.meta.url));
const read = (file: string): string => readFileSync(`${CHART}/${file}`, 'utf8');

const REDIS = { redis: { url: 'rediss://redis.example.com:6380' } };
const FULL = {
  ...REDIS,
  replicas: 3,
  image: { repository: 'images.example.com/holdfast', tag: 'v1' },
  imagePullSecrets: [{ name: 'pull' }],
  secret: { name: 'keys', redisPassword: 'REDIS', evidenceKeys: 'EVIDENCE' },
  env: { LOG_LEVEL: 'warn', IDEMPOTENCY_TTL_MS: '86400000' },
  preStopSeconds: 12,
  podAnnotations: { 'prometheus.io/scrape': 'false' },
  nodeSelector: { disk: 'ssd' },
  tolerations: [{ key: 'ledger', operator: 'Exists' }],
};

const containerOf = (manifests: Record<string, Manifest>): Manifest =>
  manifests['Deployment'].spec.template.spec.containers[0];
const envOf = (manifests: Record<string, Manifest>): Record<string, Manifest> =>
  Object.fromEntries(containerOf(manifests).env.map(({ name, ...rest }: Manifest) => [name, rest]));

/*
 * Debian has no package of Helm, so most machines check the chart with a small renderer. Where there is Helm,
 * the two are compared.
 */
describe('the Helm chart', () => {
  test('is of the version of the service', () => {
    expect(parse(read('Chart.yaml'))).toMatchObject({
      version: HOLDFAST_VERSION,
      appVersion: HOLDFAST_VERSION,
    });
  });

  test('runs instances read-only, not as root, and spreads them', () => {
    const { Deployment: deployment } = render(CHART, REDIS);
    const { spec } = deployment.spec.template;
    expect(deployment.spec).toMatchObject({
      replicas: 2,
      strategy: { rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
    });
    expect(spec).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
      topologySpreadConstraints: [{ topologyKey: 'kubernetes.io/hostname' }],
    });
    expect(spec.containers).toMatchObject([
      {
        image: `holdfast:${HOLDFAST_VERSION}`,
        securityContext: {
          readOnlyRootFilesystem: true,
          allowPrivilegeEscalation: false,
          capabilities: { drop: ['ALL'] },
        },
        resources: { requests: { cpu: '500m', memory: '256Mi' }, limits: { memory: '512Mi' } },
      },
    ]);
    expect(spec).not.toHaveProperty('imagePullSecrets');
  });

  test('asks for liveness and readiness where Holdfast has them, on the port that it serves', () => {
    const container = containerOf(render(CHART, REDIS));
    const live = { httpGet: { path: '/health/live', port: 'http' } };
    expect(container).toMatchObject({
      ports: [{ name: 'http', containerPort: Number(envOf(render(CHART, REDIS))['PORT'].value) }],
      startupProbe: live,
      livenessProbe: live,
      readinessProbe: { httpGet: { path: '/health/ready', port: 'http' } },
    });
  });

  test.each([REDIS, FULL])('leaves time for the preStop hook and for the whole shutdown', (values) => {
    const manifests = render(CHART, values);
    const { terminationGracePeriodSeconds } = manifests['Deployment'].spec.template.spec;
    const [command, seconds] = containerOf(manifests).lifecycle.preStop.exec.command;
    expect(command).toBe('sleep');
    // A shutdown takes at most 10 s, of which shutdownGraceMs is for requests in flight.
    expect(CONSTANTS.shutdownGraceMs).toBeLessThan(10_000);
    expect(terminationGracePeriodSeconds).toBeGreaterThanOrEqual(Number(seconds) + 10);
  });

  test('takes secrets by reference, and has none in it', () => {
    const env = envOf(render(CHART, FULL));
    const from = (key: string) => ({ valueFrom: { secretKeyRef: { name: 'keys', key } } });
    expect(env).toEqual({
      PORT: { value: '7878' },
      ADMIN_API_KEY: from('ADMIN_API_KEY'),
      WEBHOOK_SECRET_ENCRYPTION_KEY: from('WEBHOOK_SECRET_ENCRYPTION_KEY'),
      REDIS_URL: { value: 'rediss://redis.example.com:6380' },
      REDIS_PASSWORD: from('REDIS'),
      EVIDENCE_KEYS: from('EVIDENCE'),
      LOG_LEVEL: { value: 'warn' },
      IDEMPOTENCY_TTL_MS: { value: '86400000' },
    });
    const secrets = CONFIG_VARIABLES.filter(({ secret }) => secret).map(({ name }) => name);
    const plain = Object.keys(env).filter((name) => 'value' in (env[name] as object));
    expect(plain.filter((name) => secrets.includes(name) && name !== 'REDIS_URL')).toEqual([]);
    const unknown = Object.keys(env).filter((name) => !CONFIG_VARIABLES.some((known) => known.name === name));
    expect(unknown).toEqual([]);
  });

  test('needs a Redis: by URL, by a secret, or by Sentinels or a cluster', () => {
    expect(() => render(CHART, {})).toThrow('set redis.url or secret.redisUrl');
    expect(envOf(render(CHART, { secret: { redisUrl: 'URL' } }))['REDIS_URL']).toEqual({
      valueFrom: { secretKeyRef: { name: 'holdfast', key: 'URL' } },
    });
    const cluster = envOf(render(CHART, { env: { REDIS_CLUSTER_NODES: 'a:7000' } }));
    expect(cluster).not.toHaveProperty('REDIS_URL');
    expect(cluster['REDIS_CLUSTER_NODES']).toEqual({ value: 'a:7000' });
  });

  test('selects the pods of its release for the service and the disruption budget', () => {
    const { Deployment: deployment, Service: service, PodDisruptionBudget: budget } = render(CHART, FULL);
    const selector = { 'app.kubernetes.io/name': 'holdfast', 'app.kubernetes.io/instance': 'ledger' };
    expect(deployment.spec.selector.matchLabels).toEqual(selector);
    expect(deployment.spec.template.metadata.labels).toMatchObject(selector);
    expect(service.spec).toEqual({
      type: 'ClusterIP',
      selector,
      ports: [{ name: 'http', port: 80, targetPort: 'http' }],
    });
    expect(budget.spec).toEqual({ maxUnavailable: 1, selector: { matchLabels: selector } });
    expect(deployment.spec.template.spec).toMatchObject({
      imagePullSecrets: FULL.imagePullSecrets,
      nodeSelector: FULL.nodeSelector,
      tolerations: FULL.tolerations,
    });
    expect(deployment.spec.template.metadata.annotations).toEqual(FULL.podAnnotations);
  });

  test('has a schema that takes its values and refuses what would not work', () => {
    const accepts = new Ajv({ allowUnionTypes: true }).compile(
      JSON.parse(read('values.schema.json')) as object,
    );
    const withDefaults = (values: object) => merged(parse(read('values.yaml')), { ...values });
    for (const values of [{}, REDIS, FULL]) {
      expect([accepts(withDefaults(values)), accepts.errors]).toEqual([true, null]);
    }
    const refused = [
      { replica: 2 },
      { replicas: 0 },
      { redis: { url: 'redis://:password@redis' } },
      { env: { LIMIT: 1e8 } },
      { env: { ADMIN_API_KEY: 'as plain text' } },
      { runAsUser: 0 },
      { secret: { adminApiKey: '' } },
    ];
    expect(refused.filter((values) => accepts(withDefaults(values)))).toEqual([]);
  });

  (hasHelm ? test : test.skip)(
    `is what Helm makes of it, without a finding of its linter${hasHelm ? '' : ' (skipped: helm is not installed)'}`,
    () => {
      for (const values of [REDIS, FULL, { secret: { redisUrl: 'URL' } }]) {
        expect(renderWithHelm(CHART, values)).toEqual(render(CHART, values));
      }
      expect(() => renderWithHelm(CHART, {})).toThrow('set redis.url or secret.redisUrl');
      expect(() => renderWithHelm(CHART, { ...REDIS, replica: 2 })).toThrow(/replica/);
      const lint = spawnSync('helm', ['lint', '--strict', CHART, '--set', `redis.url=${REDIS.redis.url}`], {
        encoding: 'utf8',
      });
      expect([lint.status, lint.stdout]).toEqual([0, expect.not.stringContaining('[WARNING]')]);
    },
  );
});
