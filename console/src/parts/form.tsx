import { NativeSelect, Textarea, TextInput } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import type { Difference } from './change-dialog';
import { readCount } from './numbers';
import { localText } from './time';

/** A field of a form. Its value is a text, as it is typed. */
export interface Field {
  readonly label: string;
  readonly description?: string;
  /** `time`: an instant in UTC as ISO 8601, chosen in the reader's zone. `lines`: several lines. */
  readonly kind?: 'text' | 'number' | 'time' | 'lines';
  /** What it can be; the others are typed. */
  readonly choices?: Readonly<Record<string, string>>;
  readonly disabled?: boolean;
}

export interface Form<Name extends string> {
  readonly values: Readonly<Record<Name, string>>;
  readonly set: (name: Name, value: string) => void;
  /** The field as an input. */
  readonly input: (name: Name) => ReactNode;
  /** All fields as inputs, in the order in which they were given. */
  readonly inputs: ReactNode;
  readonly isChanged: (...names: readonly Name[]) => boolean;
  /** What was changed, before and after. */
  readonly differences: readonly Difference[];
  /** The number in a field: undefined if it is empty, NaN if it is no whole number. */
  readonly count: (name: Name) => number | undefined;
  /** What a form with a field that is no whole number waits for. */
  readonly problem: string | undefined;
}

/** The fields of a form, of which the first has the focus. */
export function useForm<Name extends string>(
  fields: Readonly<Record<Name, Field>>,
  initial: Readonly<Record<Name, string>>,
): Form<Name> {
  const [first] = useState(initial);
  const [values, setValues] = useState(initial);
  const names = Object.keys(fields) as Name[];
  const set = (name: Name, value: string): void => setValues((old) => ({ ...old, [name]: value }));
  const isChanged = (...some: readonly Name[]): boolean => some.some((name) => values[name] !== first[name]);
  const count = (name: Name): number | undefined => readCount(values[name]);
  const wrong = names.find((name) => fields[name].kind === 'number' && Number.isNaN(count(name)));
  const input = (name: Name): ReactNode => (
    <Input
      key={name}
      field={fields[name]}
      value={values[name]}
      hasFocus={name === names.find((one) => fields[one].disabled !== true)}
      onChange={(value) => set(name, value)}
    />
  );
  return {
    values,
    set,
    input,
    inputs: names.map(input),
    isChanged,
    differences: names
      .filter((name) => isChanged(name))
      .map((name) => ({
        label: fields[name].label,
        before: shown(fields[name], first[name]),
        after: shown(fields[name], values[name]),
      })),
    count,
    problem:
      wrong === undefined
        ? undefined
        : `${fields[wrong].label}: a whole number that is not negative, or nothing`,
  };
}

const shown = ({ choices, kind }: Field, value: string): string =>
  value === ''
    ? 'none'
    : (choices?.[value] ?? (kind === 'time' ? localText(value).replace('T', ' ') : value));

function Input({
  field: { label, description, kind = 'text', choices, disabled = false },
  value,
  hasFocus,
  onChange,
}: {
  field: Field;
  value: string;
  hasFocus: boolean;
  onChange: (value: string) => void;
}): ReactNode {
  const common = {
    label,
    description,
    disabled,
    ...(hasFocus ? { 'data-autofocus': true } : {}),
  };
  if (choices !== undefined) {
    return (
      <NativeSelect
        {...common}
        data={Object.entries(choices).map(([choice, text]) => ({ value: choice, label: text }))}
        value={value}
        onChange={({ currentTarget }) => onChange(currentTarget.value)}
      />
    );
  }
  if (kind === 'lines') {
    return (
      <Textarea
        {...common}
        rows={3}
        value={value}
        onChange={({ currentTarget }) => onChange(currentTarget.value)}
      />
    );
  }
  if (kind === 'time') {
    return (
      <TextInput
        {...common}
        type="datetime-local"
        step={1}
        value={localText(value)}
        onChange={({ currentTarget: { value: text } }) =>
          onChange(text === '' ? '' : new Date(text).toISOString())
        }
      />
    );
  }
  return (
    <TextInput
      {...common}
      inputMode={kind === 'number' ? 'numeric' : 'text'}
      autoComplete="off"
      value={value}
      onChange={({ currentTarget }) => onChange(currentTarget.value)}
    />
  );
}

/** What stands in a field, in parts: separated by commas, spaces or lines. */
export const partsOf = (text: string): string[] => text.split(/[\s,]+/).filter((part) => part !== '');
