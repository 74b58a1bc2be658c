/** Of replies that something overtakes. @type {import('../list.mjs').Mutations} */
export const OVERTAKEN = {
  'webhooks/subscriptions/subscription-cache.ts': [
    {
      what: 'the earlier of two readings counts if it is answered last',
      find: 'isWhole ? readAt >= than.readAt : Number(revision) >= Number(than.revision)',
      put: 'isWhole || Number(revision) >= Number(than.revision)',
    },
    {
      what: 'a check is as fresh as its answer',
      find: '    this.checks.set(tag, { revision, at: now });',
      put: '    this.checks.set(tag, { revision, at: performance.now() });',
    },
  ],
  'console/live-feed.ts': [
    {
      what: 'a viewer gets figures that were computed for the last one before',
      tests: ['console/live-feed'],
      find: 'this.viewers.size === 0 ? undefined : snapshot',
      put: 'snapshot',
    },
  ],
  'webhooks/dispatch/event-reader.ts': [
    {
      what: 'deliveries that were queued in an earlier term are attempted',
      find: '      if (partition.term !== term) {\n        // Another instance',
      put: '      if (false) {\n        // Another instance',
    },
  ],
  'webhooks/dispatch/ordered-queue.ts': [
    {
      what: 'deliveries that are known from an earlier term are attempted',
      find: '    this.forgetEarlierTerm();\n    const delivery = this.ready.shift();',
      put: '    const delivery = this.ready.shift();',
    },
  ],
};
