/** A made-up event, job, setting and endpoint, each without a step of its checklist in docs/development.md. @type {import('../list.mjs').Mutations} */
export const CHECKLISTS = {
  'ledger/event-types.ts': [
    {
      what: 'a made-up event is a type that no script emits',
      find: "  'custom.budget_template.created',\n",
      put: "  'custom.budget_template.created',\n  'custom.made_up',\n",
    },
  ],
  'expiry/expiry.service.ts': [
    {
      what: 'a made-up job is not in the table of jobs',
      find: '    this.worker.add(this);\n',
      put: "    this.worker.add(this);\n    this.worker.add(Object.assign(Object.create(this), { name: 'made_up' }));\n",
    },
  ],
  'config/variables.ts': [
    {
      what: 'a made-up setting is not tested',
      find: "  port: setting('PORT',",
      put: "  madeUp: setting('MADE_UP', '1', text).describe('Made up.', 'Nobody.'),\n  port: setting('PORT',",
    },
    {
      what: 'a made-up setting is not in the table of settings',
      tests: ['contracts/docs'],
      find: "  host: setting('HOST',",
      put: "  madeUp: setting('MADE_UP', '1', text).describe('Made up.', 'Nobody.'),\n  host: setting('HOST',",
    },
  ],
  'clock/test-clock.controller.ts': [
    {
      what: 'a made-up endpoint has neither responses nor a purpose',
      tests: ['contracts/openapi'],
      find: "  @Post('advance')\n",
      put: "  @Get('made-up')\n  @Access({ plane: 'admin', admin: true })\n  madeUp(): string {\n    return '';\n  }\n\n  @Post('advance')\n",
    },
    {
      what: 'a made-up endpoint is not in the table of endpoints',
      find: "@Controller('ops/test-clock')",
      put: "@Controller('ops/made-up')",
    },
  ],
};
