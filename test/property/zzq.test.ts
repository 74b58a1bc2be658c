import { writeFileSync } from 'node:fs';
import { test } from '@jest/globals';
import { World } from './world.js';

test('q', async () => {
  const seeds = (process.env['QSEEDS'] ?? '338344852').split(',').map(Number);
  for (const seed of seeds) {
    let first: string[] | undefined;
    for (let count = 0; count < Number(process.env['QN'] ?? 4); count += 1) {
      const world = await World.start({ seed });
      const lines: string[] = [];
      const note = world.note.bind(world);
      world.note = (what: string, counted?: string) => { lines.push(`${(world as any).step} ${world.time.nowMs} ${what}`); note(what, counted); };
      try { await world.run(300); } finally { await world.stop(); }
      if (first === undefined) first = lines;
      else {
        const at = lines.findIndex((l, i) => l !== first![i]);
        if (at >= 0 || lines.length !== first.length) {
          process.stdout.write(`DIFF seed ${seed} run ${count} at ${at} of ${lines.length}/${first.length}\n  A ${first[at]}\n  B ${lines[at]}\n`);
          writeFileSync(`/tmp/hf/q-play-${seed}-a.txt`, first.join('\n'));
          writeFileSync(`/tmp/hf/q-play-${seed}-b.txt`, lines.join('\n'));
        } else process.stdout.write(`same ${seed} ${lines.length}\n`);
      }
    }
  }
}, 600_000);
