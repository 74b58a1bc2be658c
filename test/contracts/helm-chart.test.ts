import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { HOLDFAST_VERSION } from '../../src/config/config.js';
import { CONSTANTS } from '../../src/config/constants.js';
import { CONFIG_VARIABLES } from '../../src/config/variables.js';
import {
  criticalFindings,
  hasHelm,
  hasKubeScore,
  helm,
  type Manifest,
  render,
  template,
} from '../support/helm-chart.js';

const CHART = fileURLToPath(new URL('../../deploy/helm/holdfast', import.meta.url));
const read = (file: string): string => readFileSync(`${CHART}/${file}`, 'utf8');

const REDIS = { redis: { url: 'rediss://redis.example.com:6380' } };
/** Everything that can be set, but no Deployments of their own. */
const FULL = {
  ...REDIS,
  replicas: 3,
  image: { repository: 'images.example.com/holdfast', tag: 'v1' },
  imagePullSecrets: [{ name: 'pull' }],
  secret: {
    name: 'keys',
    redisPassword: 'REDIS',
    evidenceKeys: 'EVIDENCE',
    env: { VIEWER_API_KEY: 'VIEWER' },
  },
  env: { LOG_LEVEL: 'warn', IDEMPOTENCY_TTL_MS: '86400000' },
  extraEnv: [{ name: 'TZ', value: 'UTC' }],
  ca: { secret: 'authorities' },
  archive: { claim: 'charges' },
  extraVolumes: [{ name: 'more', emptyDir: {} }],
  extraVolumeMounts: [{ name: 'more', mountPath: '/more' }],
  autoscaling: { enabled: true, maxReplicas: 9 },
  strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: '50%', maxUnavailable: 1 } },
  service: { adminPort: 8080 },
  ingress: { enabled: true, className: 'nginx', host: 'ledger.example.com', tlsSecret: 'certificate' },
  networkPolicy: { enabled: true, redis: { to: [{ podSelector: { matchLabels: { app: 'redis' } } }] } },
  podMonitor: { enabled: true, labels: { release: 'monitoring' }, key: 'METRICS' },
  prometheusRule: { enabled: true, runbookUrl: 'https://docs.example.com/playbook.md' },
  verify: { enabled: true },
  backup: { enabled: true, claim: 'backups' },
  preStopSeconds: 12,
  serviceAccount: { create: true, annotations: { role: 'ledger' } },
  labels: { team: 'payments' },
  podLabels: { tier: 'core' },
  podAnnotations: { 'prometheus.io/scrape': 'false' },
  nodeSelector: { disk: 'ssd' },
  tolerations: [{ key: 'ledger', operator: 'Exists' }],
  affinity: { nodeAffinity: {} },
};
const ROLES = {
  ...REDIS,
  deployments: [
    { name: 'api', roles: 'api', replicas: 4 },
    { name: 'background', roles: 'sweeper,dispatcher,janitor', resources: { limits: { memory: '1Gi' } } },
  ],
};

const DEPLOYMENT = 'Deployment ledger';
const podOf = (manifests: Record<string, Manifest>, name = DEPLOYMENT): Manifest =>
  manifests[name].spec.template.spec;
const containerOf = (manifests: Record<string, Manifest>, name = DEPLOYMENT): Manifest =>
  podOf(manifests, name).containers[0];
const envOf = (manifests: Record<string, Manifest>, name = DEPLOYMENT): Record<string, Manifest> =>
  Object.fromEntries(containerOf(manifests, name).env.map(({ name: key, ...rest }: Manifest) => [key, rest]));
const SELECTOR = { 'app.kubernetes.io/name': 'holdfast', 'app.kubernetes.io/instance': 'ledger' };

test('the Helm chart is of the version of the service', () => {
  expect(parse(read('Chart.yaml'))).toMatchObject({
    version: HOLDFAST_VERSION,
    appVersion: HOLDFAST_VERSION,
  });
});

test('the Helm chart takes no secret variable as plain text', () => {
  const { env } = JSON.parse(read('values.schema.json')).properties;
  const secrets = CONFIG_VARIABLES.filter(({ secret }) => secret).map(({ name }) => name);
  expect(env.propertyNames.not.enum).toEqual(expect.arrayContaining(secrets));
});

(hasHelm ? describe : describe.skip)(
  `the Helm chart as Helm renders it${hasHelm ? '' : ' (skipped: helm is not installed)'}`,
  () => {
    test('runs instances read-only, not as root, and spreads them', () => {
      const manifests = render(CHART, REDIS);
      expect(Object.keys(manifests).sort()).toEqual([
        DEPLOYMENT,
        'PodDisruptionBudget ledger',
        'Service ledger',
      ]);
      expect(manifests[DEPLOYMENT].spec).toMatchObject({
        replicas: 2,
        strategy: { rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
      });
      expect(podOf(manifests)).toMatchObject({
        serviceAccountName: 'default',
        automountServiceAccountToken: false,
        securityContext: { runAsNonRoot: true, runAsUser: 10001, seccompProfile: { type: 'RuntimeDefault' } },
        topologySpreadConstraints: [{ topologyKey: 'kubernetes.io/hostname' }],
        containers: [
          {
            image: `holdfast:${HOLDFAST_VERSION}`,
            securityContext: {
              readOnlyRootFilesystem: true,
              allowPrivilegeEscalation: false,
              capabilities: { drop: ['ALL'] },
            },
            resources: { requests: { cpu: '500m', memory: '256Mi' }, limits: { memory: '1Gi' } },
          },
        ],
      });
      expect(podOf(manifests)).not.toHaveProperty('imagePullSecrets');
    });

    test('leaves the user to the cluster, if it is told to', () => {
      const { securityContext } = podOf(render(CHART, { ...REDIS, runAsUser: null }));
      expect(securityContext).toEqual({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
    });

    test('asks for liveness and readiness where Holdfast has them, on the port that it serves', () => {
      const manifests = render(CHART, REDIS);
      const live = { httpGet: { path: '/health/live', port: 'http' } };
      expect(containerOf(manifests)).toMatchObject({
        ports: [{ name: 'http', containerPort: Number(envOf(manifests)['PORT'].value) }],
        startupProbe: live,
        livenessProbe: live,
        readinessProbe: { httpGet: { path: '/health/ready', port: 'http' } },
      });
    });

    test.each([REDIS, FULL])('leaves time for the preStop hook and for the whole shutdown', (values) => {
      const manifests = render(CHART, values);
      const { terminationGracePeriodSeconds } = podOf(manifests);
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
        ADMIN_PORT: { value: '7879' },
        ADMIN_API_KEY: from('ADMIN_API_KEY'),
        WEBHOOK_SECRET_ENCRYPTION_KEY: from('WEBHOOK_SECRET_ENCRYPTION_KEY'),
        REDIS_URL: { value: 'rediss://redis.example.com:6380' },
        REDIS_PASSWORD: from('REDIS'),
        EVIDENCE_KEYS: from('EVIDENCE'),
        VIEWER_API_KEY: from('VIEWER'),
        NODE_EXTRA_CA_CERTS: { value: '/etc/holdfast/ca/ca.crt' },
        ARCHIVE_DIR: { value: '/archive' },
        LOG_LEVEL: { value: 'warn' },
        IDEMPOTENCY_TTL_MS: { value: '86400000' },
        TZ: { value: 'UTC' },
      });
      const unknown = Object.keys(env).filter(
        (name) =>
          !['NODE_EXTRA_CA_CERTS', 'TZ'].includes(name) &&
          !CONFIG_VARIABLES.some((known) => known.name === name),
      );
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

    test('passes on what a cluster asks of pods', () => {
      const manifests = render(CHART, FULL);
      const { spec, metadata } = manifests[DEPLOYMENT].spec.template;
      expect(spec).toMatchObject({
        serviceAccountName: 'ledger',
        imagePullSecrets: FULL.imagePullSecrets,
        nodeSelector: FULL.nodeSelector,
        tolerations: FULL.tolerations,
        affinity: FULL.affinity,
        volumes: [
          { name: 'ca', secret: { secretName: 'authorities' } },
          { name: 'holdfast-archive', persistentVolumeClaim: { claimName: 'charges' } },
          ...FULL.extraVolumes,
        ],
      });
      expect(containerOf(manifests).volumeMounts).toEqual([
        { name: 'ca', mountPath: '/etc/holdfast/ca', readOnly: true },
        { name: 'holdfast-archive', mountPath: '/archive' },
        ...FULL.extraVolumeMounts,
      ]);
      expect(metadata).toMatchObject({
        annotations: FULL.podAnnotations,
        labels: { ...SELECTOR, team: 'payments', tier: 'core' },
      });
      expect(manifests[DEPLOYMENT].spec.strategy).toEqual(FULL.strategy);
      expect(manifests['ServiceAccount ledger'].metadata.annotations).toEqual({ role: 'ledger' });
      // Its autoscaler decides how many there are.
      expect(manifests[DEPLOYMENT].spec).not.toHaveProperty('replicas');
      expect(manifests['HorizontalPodAutoscaler ledger'].spec).toMatchObject({
        scaleTargetRef: { kind: 'Deployment', name: 'ledger' },
        minReplicas: 2,
        maxReplicas: 9,
      });
    });

    test('selects the pods of its instances, and not those of jobs', () => {
      const manifests = render(CHART, FULL);
      expect(manifests[DEPLOYMENT].spec.selector.matchLabels).toEqual(SELECTOR);
      expect(manifests['Service ledger'].spec).toMatchObject({
        selector: SELECTOR,
        ports: [
          { name: 'http', port: 80, targetPort: 'http' },
          { name: 'admin', port: 8080, targetPort: 'admin' },
        ],
      });
      expect(manifests['PodDisruptionBudget ledger'].spec).toEqual({
        maxUnavailable: 1,
        selector: { matchLabels: SELECTOR },
      });
      for (const job of ['verify', 'backup']) {
        const { labels } = manifests[`CronJob ledger-${job}`].spec.jobTemplate.spec.template.metadata;
        expect(labels).toEqual({
          'app.kubernetes.io/name': 'holdfast-job',
          'app.kubernetes.io/instance': 'ledger',
          'app.kubernetes.io/component': job,
        });
      }
    });

    test('has a Deployment for each entry, of which the Service takes those that serve', () => {
      const manifests = render(CHART, ROLES);
      const deployments = Object.keys(manifests).filter((name) => name.startsWith('Deployment'));
      expect(deployments).toEqual(['Deployment ledger-api', 'Deployment ledger-background']);
      for (const { name, roles } of ROLES.deployments) {
        const one = `Deployment ledger-${name}`;
        const { matchLabels } = manifests[one].spec.selector;
        expect(matchLabels).toEqual({ ...SELECTOR, 'app.kubernetes.io/component': name });
        expect(manifests[`PodDisruptionBudget ledger-${name}`].spec.selector).toEqual({ matchLabels });
        const { labels } = manifests[one].spec.template.metadata;
        expect(labels).toMatchObject(matchLabels);
        expect(labels['holdfast/serves']).toBe(name === 'api' ? 'true' : undefined);
        expect(envOf(manifests, one)['HOLDFAST_ROLES']).toEqual({ value: roles });
      }
      expect(manifests['Service ledger'].spec.selector).toEqual({ ...SELECTOR, 'holdfast/serves': 'true' });
      expect(manifests['Deployment ledger-api'].spec.replicas).toBe(4);
      expect(manifests['Deployment ledger-background'].spec.replicas).toBe(2);
      // What an entry leaves out is that of all.
      expect(containerOf(manifests, 'Deployment ledger-background').resources).toMatchObject({
        limits: { memory: '1Gi' },
        requests: { cpu: '500m' },
      });
    });

    test('lets pods reach Redis, name servers and webhooks, and nothing else', () => {
      const { spec } = render(CHART, FULL)['NetworkPolicy ledger'];
      const everywhere = expect.objectContaining({ ipBlock: expect.objectContaining({ cidr: '0.0.0.0/0' }) });
      expect(
        spec.egress.map(({ ports, to }: Manifest) => [ports.map(({ port }: Manifest) => port), to]),
      ).toEqual([
        [[53, 53], undefined],
        [[6379, 6380], FULL.networkPolicy.redis.to],
        [[443], expect.arrayContaining([everywhere])],
        // The job that verifies asks the instances.
        [[7878, 7879], [expect.objectContaining({ podSelector: expect.anything() })]],
      ]);
      expect(spec.ingress).toEqual([{ ports: [{ port: 7878 }, { port: 7879 }] }]);
      expect(spec.podSelector).toEqual({
        matchLabels: { 'app.kubernetes.io/instance': 'ledger' },
        matchExpressions: [
          { key: 'app.kubernetes.io/name', operator: 'In', values: ['holdfast', 'holdfast-job'] },
        ],
      });
    });

    test('has the alert rules of the repository, each with its entry of the playbook', () => {
      const manifests = render(CHART, FULL);
      const own = parse(readFileSync(`${CHART}/../../prometheus/holdfast.rules.yml`, 'utf8'));
      const { groups } = manifests['PrometheusRule ledger'].spec;
      const playbook = readFileSync(`${CHART}/../../../docs/playbook.md`, 'utf8');
      const headings = [...playbook.matchAll(/^### (\w+)$/gm)].map(([, name]) =>
        (name as string).toLowerCase(),
      );
      for (const rule of groups.flatMap(({ rules }: Manifest) => rules)) {
        if (rule.alert !== undefined) {
          const [page, anchor] = rule.annotations.runbook_url.split('#');
          expect(page).toBe(FULL.prometheusRule.runbookUrl);
          expect(headings).toContain(anchor);
          delete rule.annotations.runbook_url;
        }
      }
      expect(groups).toEqual(own.groups);
      // The rules ask for a job of this name.
      expect(manifests['PodMonitor ledger'].spec).toMatchObject({
        jobLabel: 'app.kubernetes.io/name',
        podMetricsEndpoints: [
          {
            port: 'admin',
            path: '/metrics',
            authorization: { credentials: { name: 'keys', key: 'METRICS' } },
          },
        ],
      });
    });

    test('leads the way in, and verifies and backs up on request', () => {
      const manifests = render(CHART, FULL);
      expect(manifests['Ingress ledger'].spec).toMatchObject({
        ingressClassName: 'nginx',
        tls: [{ hosts: ['ledger.example.com'], secretName: 'certificate' }],
        rules: [
          {
            host: 'ledger.example.com',
            http: { paths: [{ backend: { service: { name: 'ledger', port: { name: 'http' } } } }] },
          },
        ],
      });
      const jobOf = (name: string): Manifest =>
        manifests[`CronJob ledger-${name}`].spec.jobTemplate.spec.template.spec;
      expect(jobOf('verify').containers[0]).toMatchObject({
        image: 'images.example.com/holdfast:v1',
        command: ['node', 'scripts/verify.mjs', '--url', 'http://ledger:8080'],
        env: [{ name: 'ADMIN_API_KEY' }],
      });
      expect(jobOf('backup')).toMatchObject({
        containers: [
          { image: 'redis:7.4-bookworm', env: [{ name: 'REDIS_URL' }, { name: 'REDIS_PASSWORD' }] },
        ],
        volumes: [{ persistentVolumeClaim: { claimName: 'backups' } }, { name: 'ca' }],
      });
      expect(() => render(CHART, { ...FULL, backup: { enabled: true } })).toThrow('set backup.claim');
      expect(() => render(CHART, { ...FULL, ingress: { enabled: true } })).toThrow('set ingress.host');
    });

    test('takes its values and refuses what would not work, without a finding of the linter', () => {
      for (const values of [REDIS, FULL, ROLES, { secret: { redisUrl: 'URL' } }]) {
        const { status, stdout } = helm(['lint', '--strict', CHART], values);
        expect([status, stdout]).toEqual([0, expect.not.stringContaining('[WARNING]')]);
      }
      const refused = [
        { replica: 2 },
        { replicas: 0 },
        { redis: { url: 'redis://:password@redis' } },
        { env: { LIMIT: 1e8 } },
        { env: { ADMIN_API_KEY: 'as plain text' } },
        { env: { VIEWER_API_KEY: 'as plain text' } },
        { runAsUser: 0 },
        { secret: { adminApiKey: '' } },
        { deployments: [{ name: 'without roles' }] },
        { networkPolicy: { redis: { ports: [] } } },
      ];
      const accepted = refused.filter(
        (values) => helm(['template', CHART], { ...REDIS, ...values }).status === 0,
      );
      expect(accepted).toEqual([]);
    });

    /*
     * Not asked of it: an image that is pulled at each start, because a version stays what it is, and a limit on processor time, which
     * would stop the service for a moment whenever it is busiest.
     */
    (hasKubeScore ? test : test.skip)(
      `has nothing that kube-score finds critical${hasKubeScore ? '' : ' (skipped: kube-score is not installed)'}`,
      () => {
        for (const values of [FULL, { ...ROLES, networkPolicy: { enabled: true } }]) {
          expect(criticalFindings(template(CHART, values), ['container-image-pull-policy'])).toEqual([]);
        }
        // It would see one.
        expect(criticalFindings(template(CHART, REDIS), [])).not.toEqual([]);
      },
    );
  },
);
