import { join } from 'node:path';
import importX from 'eslint-plugin-import-x';
import tseslint from 'typescript-eslint';
import { readJson } from './scripts/install.mjs';
import { noCircles } from './scripts/no-circles.mjs';

/** The folders of src, from the ground up. None imports one that stands after it. */
const LAYERS = [
  'ledger',
  'config',
  'telemetry',
  'wire',
  'redis',
  'auth',
  'answers',
  'http',
  'worker',
  'limits',
  'bulk',
  'expiry',
  'governance',
  'clock',
  'evidence',
  'reservations',
  'events',
  'webhooks',
  'spikes',
  'audit',
  'retention',
  'archive',
  'usage',
  'overview',
  'console',
  'cli',
  'app',
];

const PUBLIC_FILES_ONLY = {
  regex: `^(\\.\\./)+(${LAYERS.join('|')})/(?!index\\.js$)`,
  message: "Import another capability only through its public file, '<folder>/index.js'.",
};

const NO_HTTP = {
  regex: '^(\\.\\./)+http/',
  message: 'A service does not know HTTP; what both sides need stands in src/wire.',
};

const noImportFrom = (/** @type {string[]} */ layers) => ({
  regex: `^(\\.\\./)+(${layers.join('|')})/`,
  message: 'A layer imports only from those below it.',
});

/** A class that needs more does more than one thing. */
const FEW_PARTS = {
  selector: "MethodDefinition[kind='constructor'] > FunctionExpression[params.length>6]",
  message: 'A constructor has at most six parameters.',
};

/** @type {import('eslint').Linter.Config[]} */
const LAYER_RULES = LAYERS.flatMap((layer, index) => {
  const above = LAYERS.slice(index + 1);
  const patterns = [PUBLIC_FILES_ONLY, ...(above.length > 0 ? [noImportFrom(above)] : [])];
  return [
    {
      files: [`src/${layer}/**/*.ts`],
      rules: { 'no-restricted-imports': ['error', { patterns }] },
    },
    {
      files: [`src/${layer}/**/*.service.ts`],
      rules: { 'no-restricted-imports': ['error', { patterns: [...patterns, NO_HTTP] }] },
    },
  ];
});

/** Dates may be parsed, computed and compared. Whatever else is done with Date may read the host's clock. */
const HOST_CLOCK = [
  "MemberExpression[object.name='Date'][property.name!=/^(parse|UTC)$/]",
  "MemberExpression[object.name='Date'][computed=true]",
  "NewExpression[callee.name='Date'][arguments.length=0]",
  "NewExpression[callee.name='Date'] > SpreadElement",
  ":not(NewExpression, MemberExpression, BinaryExpression, TSTypeReference) > Identifier[name='Date']",
  "NewExpression[callee.name!='Date'] > Identifier[name='Date']",
  "MemberExpression[property.name='Date']",
  "MemberExpression[property.value='Date']",
  "MemberExpression[property.name='timeOrigin']",
  "MemberExpression[property.name='hrtime']",
  "ImportSpecifier[imported.name='hrtime']",
  "Property[key.name=/^(timeOrigin|hrtime)$/][parent.type='ObjectPattern']",
  "Identifier[name='Temporal']",
];

const noHostClock = (/** @type {string} */ message) => HOST_CLOCK.map((selector) => ({ selector, message }));

const REDIS_TIME_ONLY = noHostClock(
  'Decisions use the time of Redis, instants that leave the process RedisClock, durations performance.now().',
);

/** The rule about dependencies cannot see a package that is named this way. */
const NO_HIDDEN_REQUIRE = {
  selector: "CallExpression[callee.type='CallExpression'][callee.callee.name='createRequire']",
  message: 'Import the package by its name, so that its declaration can be checked.',
};

/** Tests that run always, or say why they do not. */
const RUNNING_TESTS = [
  {
    selector:
      'MemberExpression[object.name=/^(test|describe|it)$/][property.name=/^(only|todo|failing|concurrent)$/]',
    message: 'Every test runs, by itself.',
  },
  {
    selector: 'CallExpression[callee.name=/^(f|x)(it|test|describe)$/]',
    message: 'Every test runs.',
  },
  {
    selector:
      ":not(ConditionalExpression) > MemberExpression[object.name=/^(test|describe|it)$/][property.name='skip']",
    message: 'A test is skipped where a condition says so, and its title says why.',
  },
];

const TOPOLOGIES = /** @type {{ suites: string[] }} */ (
  readJson(join(import.meta.dirname, 'test/topologies.json'))
);

const CLIENT_OF_TOPOLOGY = {
  selector: 'NewExpression[callee.name=/^(Redis|Cluster)$/]',
  message: "These suites run on every topology: take the run's client, connectTo().",
};

export default tseslint.config(
  {
    ignores: [
      '**/dist/',
      '.test-dist/',
      'node_modules/',
      'coverage/',
      '.data/',
      'src/redis/keys.ts',
      'src/redis/script-types.ts',
      'console/src/api/openapi.ts',
    ],
  },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  {
    files: ['**/*.ts', '**/*.mjs', '*.js'],
    ignores: ['console/src/**'],
    extends: [...tseslint.configs.recommendedTypeChecked],
    languageOptions: {
      parserOptions: { project: './tsconfig.all.json', tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      '@typescript-eslint/explicit-module-boundary-types': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/prefer-readonly': 'error',
      // Type-only imports of injected classes would lose the decorator metadata that Nest reads.
      '@typescript-eslint/consistent-type-imports': 'off',
      // Nest modules are empty classes by nature.
      '@typescript-eslint/no-extraneous-class': 'off',
      eqeqeq: 'error',
      'no-console': 'error',
      'no-restricted-syntax': ['error', ...REDIS_TIME_ONLY],
    },
  },
  {
    // The console runs in browsers and has a program of its own.
    files: ['console/src/**/*.{ts,tsx}'],
    extends: [...tseslint.configs.recommendedTypeChecked],
    languageOptions: {
      parserOptions: { project: './console/tsconfig.json', tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      eqeqeq: 'error',
      'no-console': 'error',
      'max-lines': ['error', { max: 300, skipBlankLines: true, skipComments: true }],
      // A component is its markup.
      'max-lines-per-function': ['error', { max: 110, skipBlankLines: true, skipComments: true }],
      // Texts of clients are shown as text. This would make markup of them.
      'no-restricted-syntax': [
        'error',
        {
          selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']",
          message: 'Show texts as text; stored ones may be an attack.',
        },
        ...noHostClock("The browser's clock may be wrong: ask api/server-time."),
      ],
      'no-restricted-properties': [
        'error',
        { object: 'crypto', property: 'randomUUID', message: 'It is missing on pages over plain http.' },
      ],
    },
  },
  {
    // What src imports must be installed where development dependencies are not; types go the same way, so that nobody has to judge.
    files: ['src/**/*.ts'],
    plugins: { 'import-x': importX, holdfast: { rules: { 'no-circles': noCircles } } },
    rules: {
      'holdfast/no-circles': 'error',
      'import-x/no-extraneous-dependencies': [
        'error',
        { devDependencies: false, optionalDependencies: false, peerDependencies: false, includeTypes: true },
      ],
      'no-restricted-syntax': ['error', ...REDIS_TIME_ONLY, NO_HIDDEN_REQUIRE, FEW_PARTS],
    },
  },
  {
    files: ['src/**/*.ts'],
    rules: {
      'max-lines': ['error', { max: 300, skipBlankLines: true, skipComments: true }],
      'max-lines-per-function': ['error', { max: 70, skipBlankLines: true, skipComments: true }],
    },
  },
  ...LAYER_RULES,
  {
    // Tables: one entry after the other, which nobody reads from the top to the end.
    files: ['src/redis/script-types.ts'],
    rules: { 'max-lines': 'off', 'max-lines-per-function': 'off' },
  },
  {
    // The environment becomes the typed configuration in one folder, and nothing else reads it.
    files: ['src/**/*.ts'],
    ignores: ['src/config/**'],
    rules: {
      'no-restricted-properties': [
        'error',
        { object: 'process', property: 'env', message: 'Only src/config reads the environment.' },
      ],
    },
  },
  {
    // What a person reads on a terminal is written there.
    files: ['src/cli/**/*.ts'],
    rules: { 'no-console': 'off' },
  },
  {
    // Checked JavaScript: these rules ask for syntax that only TypeScript has.
    files: ['**/*.mjs', '*.js'],
    rules: {
      '@typescript-eslint/explicit-module-boundary-types': 'off',
      '@typescript-eslint/prefer-readonly': 'off',
    },
  },
  {
    // Run by a reader, in a terminal of their own.
    files: ['examples/**'],
    rules: { 'no-console': 'off' },
  },
  {
    files: ['bench/**', 'scripts/**', 'examples/**', 'integrations/**/*.ts'],
    rules: {
      'max-lines': ['error', { max: 300, skipBlankLines: true, skipComments: true }],
      'max-lines-per-function': ['error', { max: 70, skipBlankLines: true, skipComments: true }],
      // A benchmark measures what a machine does, and asks no ledger for the time.
      'no-restricted-syntax': 'off',
    },
  },
  {
    // Replaces the host's clock to show that nothing reads it.
    files: ['test/support/stepping-clock.mjs'],
    rules: { 'no-restricted-syntax': 'off' },
  },
  {
    files: ['test/**/*.ts'],
    rules: {
      '@typescript-eslint/explicit-module-boundary-types': 'off',
      // Answers are parsed JSON, and Jest's asymmetric matchers are typed as any; the assertions are the check.
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      // Jest's spies are named without being called.
      '@typescript-eslint/unbound-method': 'off',
      'no-restricted-syntax': ['error', ...RUNNING_TESTS],
    },
  },
  {
    files: TOPOLOGIES.suites.map((suite) => `${suite}/**/*.ts`),
    rules: { 'no-restricted-syntax': ['error', ...RUNNING_TESTS, CLIENT_OF_TOPOLOGY] },
  },
);
