import 'reflect-metadata';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { request } from 'undici';
import { startProbeApp, type ProbeApp } from './probe-app.js';

let app: ProbeApp;
beforeAll(async () => {
  app = await startProbeApp();
});
afterAll(() => app.close());

async function get(path: string): Promise<{ status: number; type: string; text: string }> {
  const response = await request(app.url + path);
  return {
    status: response.statusCode,
    type: String(response.headers['content-type']),
    text: await response.body.text(),
  };
}

test('the document shows the rules that requests are checked with, and the one error form', async () => {
  const { status, text } = await get('/openapi.json');
  expect(status).toBe(200);
  expect(text).toContain('"maximum":9223372036854775807');
  const document = JSON.parse(text) as Record<string, never>;
  expect(document).toMatchObject({
    openapi: expect.stringMatching(/^3\./),
    paths: {
      '/probe/echo': {
        post: {
          requestBody: {
            content: {
              'application/json': {
                schema: {
                  required: ['key'],
                  additionalProperties: false,
                  properties: { amount: { type: 'integer', format: 'int64', minimum: 0 } },
                },
              },
            },
          },
          responses: { default: { $ref: '#/components/responses/ErrorResponse' } },
        },
      },
      '/probe/list': {
        get: {
          parameters: expect.arrayContaining([expect.objectContaining({ name: 'limit', required: false })]),
        },
      },
    },
    components: {
      securitySchemes: {
        ApiKeyAuth: { type: 'apiKey', in: 'header', name: 'X-Cycles-API-Key' },
        AdminKeyAuth: { type: 'apiKey', in: 'header', name: 'X-Admin-API-Key' },
      },
      schemas: { ErrorResponse: { required: ['error', 'message', 'request_id'] } },
    },
  });
});

test('the UI is served with everything it loads', async () => {
  const page = await get('/docs');
  expect(page).toMatchObject({ status: 200, type: 'text/html; charset=utf-8' });
  const parts = [...page.text.matchAll(/(?:href|src)="([^"]+)"/g)].map((match) => match[1] as string);
  expect(parts.length).toBeGreaterThan(2);
  for (const part of parts) {
    expect((await get(part)).status).toBe(200);
  }
  expect((await get('/docs/start.js')).text).toContain('/openapi.json');
});

test('no other file of the package is served', async () => {
  for (const path of ['/docs/package.json', '/docs/..%2Fpackage.json', '/docs/constructor']) {
    expect((await get(path)).status).toBe(404);
  }
});
