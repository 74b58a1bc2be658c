import { type ReactNode, useEffect, useId, useState } from 'react';

const PAUSE_MS = 300;

/** A text filter. It reports what was typed after a short pause, and follows the URL. */
export function TextFilter({
  label,
  value,
  onChange,
  wide = false,
  onInput,
  suggestions,
}: {
  label: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
  /** Takes two places of the row. */
  wide?: boolean;
  /** Told of each change at once. */
  onInput?: (text: string) => void;
  /** The id of a `datalist`. */
  suggestions?: string;
}): ReactNode {
  const id = useId();
  const [text, setText] = useState(value ?? '');
  useEffect(() => setText(value ?? ''), [value]);
  useEffect(() => {
    if (text === (value ?? '')) {
      return undefined;
    }
    const timer = window.setTimeout(() => onChange(text === '' ? undefined : text), PAUSE_MS);
    return () => window.clearTimeout(timer);
  }, [text, value, onChange]);
  return (
    <div className={wide ? 'filter wide' : 'filter'}>
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        type="search"
        value={text}
        list={suggestions}
        onFocus={() => onInput?.(text)}
        onChange={(event) => {
          setText(event.currentTarget.value);
          onInput?.(event.currentTarget.value);
        }}
      />
    </div>
  );
}

/** A choice among a few values; the first entry, `all`, stands for none of them. */
export function ChoiceFilter({
  label,
  all = 'All',
  value,
  choices,
  onChange,
}: {
  label: string;
  all?: string;
  value: string | undefined;
  choices: Readonly<Record<string, string>>;
  onChange: (value: string | undefined) => void;
}): ReactNode {
  const id = useId();
  return (
    <div className="filter">
      <label htmlFor={id}>{label}</label>
      <select
        id={id}
        value={value ?? ''}
        onChange={(event) =>
          onChange(event.currentTarget.value === '' ? undefined : event.currentTarget.value)
        }
      >
        <option value="">{all}</option>
        {Object.entries(choices).map(([key, text]) => (
          <option key={key} value={key}>
            {text}
          </option>
        ))}
      </select>
    </div>
  );
}

/** A filter that is on or off. */
export function CheckFilter({
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
    <div className="filter check-filter">
      <input
        id={id}
        type="checkbox"
        checked={value === 'true'}
        onChange={({ currentTarget: { checked } }) => onChange(checked ? 'true' : undefined)}
      />
      <label htmlFor={id}>{label}</label>
    </div>
  );
}
