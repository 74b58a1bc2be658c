import { readdirSync, readFileSync } from 'node:fs';
import { type DynamicModule, Global, Module, type Type } from '@nestjs/common';
import { GLOBAL_MODULE_METADATA, MODULE_METADATA } from '@nestjs/common/constants.js';
import { describe, expect, test } from '@jest/globals';
import { AppModule } from '../../src/app/app.module.js';
import { RouteTable } from '../../src/http/route-table.js';
import { createLogger } from '../../src/telemetry/logger.js';
import { configOf } from '../support/settings.js';

const SRC = new URL('../../src/', import.meta.url);

type Imported = Type | DynamicModule;

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
const textOf = (path: string): string => readFileSync(new URL(path, SRC), 'utf8');
const folderOf = (path: string): string => path.split('/')[0] as string;

function classOf(module: Imported): Type {
  return 'module' in module ? module.module : module;
}

/** What a module declares, in its decorator and where it is imported. */
function declared(module: Imported, part: 'imports' | 'providers' | 'controllers'): Imported[] {
  return [
    ...((Reflect.getMetadata(MODULE_METADATA[part.toUpperCase() as 'IMPORTS'], classOf(module)) ??
      []) as Imported[]),
    ...('module' in module ? ((module[part] ?? []) as Imported[]) : []),
  ];
}

/** The modules of the service by the names of their classes, from the one that has all. Those of packages are left out. */
function reachable(from: Imported, ours: ReadonlySet<string>, found = new Map<string, Imported>()) {
  const { name } = classOf(from);
  if (ours.has(name) && !found.has(name)) {
    found.set(name, from);
    declared(from, 'imports').forEach((next) => reachable(next, ours, found));
  }
  return found;
}

const onlyWires = (module: Imported): boolean =>
  declared(module, 'providers').length + declared(module, 'controllers').length === 0;

const isGlobal = (module: Imported): boolean =>
  Reflect.getMetadata(GLOBAL_MODULE_METADATA, classOf(module)) === true;

const modulesIn = (text: string): string[] =>
  [...text.matchAll(/@Module\((?:.|\n)*?\nexport class (\w+)/g)].map(([, name]) => name as string);

const byFolder = new Map<string, string[]>();
for (const path of files) {
  const names = modulesIn(textOf(path));
  if (names.length > 0) {
    byFolder.set(folderOf(path), [...(byFolder.get(folderOf(path)) ?? []), ...names]);
  }
}

describe('the composition is flat', () => {
  const app = AppModule.forRoot(
    configOf({ ADMIN_API_KEY: 'a-key-that-opens-nothing', HOLDFAST_TEST_CLOCK: 'true' }),
    {
      logger: createLogger('silent'),
      routes: new RouteTable(),
    },
  );
  const modules = reachable(app, new Set([...byFolder.values()].flat()));

  test('each capability has one module; each change of a reservation has its own, and a batch, which makes them all', () => {
    const several = [...byFolder].filter(([, names]) => names.length > 1);
    expect(several.map(([folder, names]) => [folder, names.sort()])).toEqual([
      [
        'reservations',
        [
          'BatchModule',
          'CommitModule',
          'ExtendModule',
          'ReleaseModule',
          'ReservationsModule',
          'ReserveModule',
        ],
      ],
    ]);
  });

  test('each capability has at most one public file, in its own folder', () => {
    expect(files.filter((path) => path.endsWith('/index.ts') && path.split('/').length !== 2)).toEqual([]);
  });

  test('the service imports every module that is declared, and none only wires others', () => {
    expect([...modules.keys()].sort()).toEqual([...byFolder.values()].flat().sort());
    expect([...modules.values()].filter(onlyWires).map((module) => classOf(module).name)).toEqual([]);
  });

  test('only configuration, Redis, and what a process tells of itself are global', () => {
    const globals = [...modules.values()].filter(isGlobal).map((module) => classOf(module).name);
    expect(globals.sort()).toEqual(['ConfigModule', 'RedisModule', 'TelemetryModule']);
  });

  test('nothing depends on itself through others', () => {
    expect(files.filter((path) => textOf(path).includes('forwardRef'))).toEqual([]);
  });

  test('the checks notice a module that only wires, and a global one', () => {
    @Global()
    @Module({ imports: [AppModule] })
    class Wiring {}
    expect(onlyWires(Wiring)).toBe(true);
    expect(isGlobal(Wiring)).toBe(true);
    expect(modulesIn('@Module({\n  imports: [A],\n})\nexport class Wiring {}')).toEqual(['Wiring']);
  });
});
