import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { RouteTable } from '../../src/http/route-table.js';
import { expectRefusal, Holdfast } from '../support/holdfast.js';

describe('the most specific template of a path', () => {
  const table = new RouteTable();
  table.add('/hooks/:id', ['GET', 'PATCH']);
  table.add('/hooks/bulk', ['POST']);
  table.add('/hooks/:id/test', ['POST']);
  table.add('/hooks/bulk/:part', ['PUT']);
  table.add('/plain', ['GET']);

  test.each([
    ['/hooks/bulk', ['POST']],
    ['/hooks/x', ['GET', 'PATCH']],
    ['/hooks/bulk/test', ['PUT']],
    ['/hooks/x/test', ['POST']],
    ['/hooks/', []],
    ['/plain', ['GET']],
  ])('alone says what %s allows', (path, methods) => {
    expect(table.methodsOf(path)).toEqual(methods);
  });

  test.each([
    ['/hooks/bulk', '/hooks/:id', true],
    ['/hooks/x', '/hooks/:id', false],
    ['/hooks/bulk', '/hooks/bulk', false],
    ['/hooks/bulk/test', '/hooks/:id/test', true],
    ['/plain', '/plain', false],
  ])('for %s is not %s: %s', (path, template, isAnother) => {
    expect(table.matchesMoreSpecific(path, template)).toBe(isAnother);
  });
});

describe('every path without parameters that a template with parameters matches too', () => {
  let holdfast: Holdfast;
  beforeAll(async () => {
    holdfast = await Holdfast.start();
  });
  afterAll(() => holdfast.stop());

  test('allows its own methods only, and is no id', async () => {
    const routes = holdfast.app
      .get(RouteTable)
      .list()
      .map((route) => route.split(' ') as [method: string, template: string]);
    const shaped = (template: string): RegExp => new RegExp(`^${template.replaceAll(/:\w+/g, '[^/]+')}$`);
    const shadows = routes.filter(
      ([, path]) =>
        !path.includes(':') &&
        routes.some(([, template]) => template.includes(':') && shaped(template).test(path)),
    );
    const paths = [...new Set(shadows.map(([, path]) => path))];
    expect(paths).toContain('/v1/admin/webhooks/bulk-action');
    for (const path of paths) {
      const own = shadows
        .filter(([, shadow]) => shadow === path)
        .map(([method]) => method)
        .sort();
      for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].filter((each) => !own.includes(each))) {
        const answer = await holdfast.admin(method, path, method === 'GET' ? undefined : {});
        expectRefusal(answer, 405, 'INVALID_REQUEST');
        expect([method, answer.headers.get('allow')]).toEqual([method, own.join(', ')]);
      }
    }
  });
});
