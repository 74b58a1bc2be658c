import { describe, expect, test } from '@jest/globals';
import { judge } from '../../scripts/audit.mjs';

const advisory = {
  source: 1,
  name: 'parser',
  dependency: 'parser',
  title: 'Reads too far',
  url: 'https://advisories.example/1',
  severity: 'high',
  range: '<2',
};
const report = (...vias: unknown[][]): string =>
  JSON.stringify({
    auditReportVersion: 2,
    vulnerabilities: Object.fromEntries(
      vias.map((via, index) => [`package-${index}`, { severity: 'high', via }]),
    ),
  });

describe('the audit of dependencies', () => {
  test('passes where there are no advisories', () => {
    expect(judge(report())).toEqual({ code: 0, lines: ['audit: 0 findings, 0 of them not accepted'] });
  });

  test('fails at an advisory and reports it once, however many packages depend on it', () => {
    const { code, lines } = judge(report([advisory], ['parser']));
    expect(code).toBe(1);
    expect(lines).toEqual([
      'audit: parser, high: Reads too far (https://advisories.example/1)',
      'audit: 1 findings, 1 of them not accepted',
    ]);
  });

  test('passes at one that is explained, and prints the reason', () => {
    const { code, lines } = judge(report([advisory]), new Map([[advisory.url, 'nothing here parses']]));
    expect(code).toBe(0);
    expect(lines[0]).toMatch(/Reads too far .*: nothing here parses$/);
  });

  test.each(['', 'no json', JSON.stringify({ message: '405 Method Not Allowed', statusCode: 405 })])(
    'says that nothing was checked when it gets no report (%j)',
    (output) => {
      const { code, lines } = judge(output);
      expect(code).toBe(0);
      expect(lines[0]).toContain('NOTHING WAS CHECKED');
    },
  );
});
