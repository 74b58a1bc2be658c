import { expect, test } from '@jest/globals';
import { operatorIn, whoOf } from '../../console/src/parts/actor.js';

test('the name of an account reads as people write it, and cannot pass for that of another', () => {
  expect(
    [
      'operator:bob',
      'oidc:Carol%20Danvers#carol',
      'oidc:M%C3%BCller%2C%20J%C3%BCrgen#7',
      'oidc:alice@example.com%23alice#mallory',
      'oidc:bob%E2%80%AE%7C%25#1',
      'oidc:%FF#2',
      'ses_1',
    ].map(operatorIn),
  ).toEqual([
    'bob',
    'Carol Danvers#carol',
    'Müller, Jürgen#7',
    'alice@example.com%23alice#mallory',
    'bob%E2%80%AE%7C%25#1',
    '%FF#2',
    undefined,
  ]);
  expect(whoOf('admin_on_behalf_of', 'acme', 'oidc:Carol%20Danvers#carol')).toBe(
    'Carol Danvers#carol, on behalf of acme',
  );
});
