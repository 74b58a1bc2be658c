import { Button } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { type ReactNode, useCallback, useId, useMemo, useState } from 'react';
import { localText } from './time';

/** The filters of a page, and a button that clears those that are named. */
export function FilterBar<Name extends string>({
  filters,
  names,
  change,
  children,
}: {
  filters: FilterChange<Name>;
  names: readonly Name[];
  change: (filters: FilterChange<Name>) => void;
  children: ReactNode;
}): ReactNode {
  const set = names.filter((name) => filters[name] !== undefined).length;
  const [isOpen, setOpen] = useState(false);
  const clear = (): void =>
    change(Object.fromEntries(names.map((name) => [name, undefined])) as FilterChange<Name>);
  return (
    <div className="filters" role="search" aria-label="Filters" data-open={isOpen}>
      <Button
        className="filters-button"
        variant="default"
        size="compact-sm"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        {set === 0 ? 'Filters' : `Filters (${set})`}
      </Button>
      <div className="filters-fields">{children}</div>
      <Button
        className="filters-clear"
        variant="default"
        size="compact-sm"
        h={30}
        disabled={set === 0}
        onClick={clear}
      >
        Clear filters
      </Button>
    </div>
  );
}

export type FilterChange<Name extends string> = Partial<Record<Name, string | undefined>>;

/** Changes filters in the URL. Another choice starts at the first page. */
export function useFilterChange<Name extends string>(): (filters: FilterChange<Name>) => void {
  const navigate = useNavigate();
  return useCallback(
    (filters) =>
      void navigate({
        to: '.',
        search: ((old: object) => ({ ...old, cursor: undefined, ...filters })) as never,
        replace: true,
        resetScroll: false,
      }),
    [navigate],
  );
}

/** A setter for each filter, the same function for as long as `change` is the same, as TextFilter needs it. */
export function useSetters<Name extends string>(
  names: readonly Name[],
  change: (filters: FilterChange<Name>) => void,
): Readonly<Record<Name, (value: string | undefined) => void>> {
  return useMemo(
    () =>
      Object.fromEntries(
        names.map((name) => [
          name,
          (value: string | undefined) => change({ [name]: value } as FilterChange<Name>),
        ]),
      ) as Record<Name, (value: string | undefined) => void>,
    [names, change],
  );
}

/** An instant, chosen in the reader's zone and kept in UTC. */
export function TimeFilter({
  label,
  value,
  onChange,
}: {
  label: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}): ReactNode {
  const id = useId();
  return (
    <div className="filter wide">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        type="datetime-local"
        step={1}
        value={localText(value)}
        title={value === undefined ? undefined : `${value} (UTC)`}
        onChange={({ currentTarget: { value: text } }) =>
          onChange(text === '' ? undefined : new Date(text).toISOString())
        }
      />
    </div>
  );
}
