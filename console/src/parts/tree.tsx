import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { stringifyJson } from '../api/json';
import { Amount } from './amount';
import { EventLink } from './event-link';
import { Time } from './time';

/** Members that are amounts of the unit that stands beside or above them. */
const AMOUNTS = new Set([
  'amount',
  'allocated',
  'remaining',
  'budget_remaining',
  'spent',
  'reserved',
  'debt',
  'overdraft_limit',
  'debt_incurred',
  'total_debt',
  'requested_amount',
  'estimated_amount',
  'actual_amount',
  'overage',
  'charged',
  'released_amount',
  'returned_amount',
]);
const INTEGER = /^-?\d+$/;
const INSTANT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z$/;
const RESERVATION_ID = /^rsv_\w+$/;
const EVENT_ID = /^evt_[0-9a-f]{16,29}$/;
/** What is deeper than this is shown as JSON. */
const MAX_DEPTH = 12;

type Members = Readonly<Record<string, unknown>>;

/** JSON as a tree of names and values. Everything that a client stored is shown as text. */
export function Tree({
  value,
  unit,
  depth = 0,
}: {
  value: Members;
  unit?: string;
  depth?: number;
}): ReactNode {
  const own = typeof value['unit'] === 'string' ? value['unit'] : unit;
  return (
    <dl className="tree">
      {Object.entries(value).map(([name, member]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <Value name={name} value={member} unit={own} depth={depth + 1} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Value({
  name,
  value,
  unit,
  depth,
}: {
  name: string;
  value: unknown;
  unit: string | undefined;
  depth: number;
}): ReactNode {
  if (typeof value !== 'object' || value === null) {
    return <Leaf name={name} value={value} unit={unit} />;
  }
  if (Object.keys(value).length === 0) {
    return <span className="muted">{Array.isArray(value) ? 'empty list' : 'nothing'}</span>;
  }
  if (depth >= MAX_DEPTH) {
    return stringifyJson(value);
  }
  if (Array.isArray(value) && value.every((item) => typeof item !== 'object' || item === null)) {
    return value.map(String).join(', ');
  }
  return <Tree value={value as Members} {...(unit === undefined ? {} : { unit })} depth={depth} />;
}

function Leaf({ name, value, unit }: { name: string; value: unknown; unit: string | undefined }): ReactNode {
  const text = String(value);
  if (unit !== undefined && AMOUNTS.has(name) && INTEGER.test(text)) {
    return <Amount amount={BigInt(text)} unit={unit} withUnit exact />;
  }
  if (typeof value !== 'string') {
    return <span className="num">{text}</span>;
  }
  if (INSTANT.test(value)) {
    return <Time at={value} />;
  }
  if (name === 'reservation_id' && RESERVATION_ID.test(value)) {
    return (
      <Link to="/reservations/$id" params={{ id: value }}>
        {value}
      </Link>
    );
  }
  if (EVENT_ID.test(value)) {
    return <EventLink id={value} />;
  }
  return value;
}
