import { type ReactNode, useId } from 'react';

/** Choices of which several hold, in groups. `all` offers a group as a whole, also what it will have later. */
export function Checks({
  legend,
  groups,
  words = {},
  chosen,
  onChange,
  disabled,
}: {
  legend: string;
  groups: readonly { readonly name: string; readonly choices: readonly string[]; readonly all?: string }[];
  /** What choices mean. */
  words?: Readonly<Record<string, string>>;
  chosen: ReadonlySet<string>;
  onChange: (chosen: ReadonlySet<string>) => void;
  /** Why a choice cannot be made. */
  disabled?: (choice: string) => boolean;
}): ReactNode {
  const toggle = (choice: string): void => {
    const next = new Set(chosen);
    if (!next.delete(choice)) {
      next.add(choice);
    }
    onChange(next);
  };
  const box = (choice: string, label: string, isImplied = false): ReactNode => (
    <Check
      key={choice}
      label={label}
      words={words[choice]}
      isChecked={isImplied || chosen.has(choice)}
      isDisabled={isImplied || disabled?.(choice) === true}
      toggle={() => toggle(choice)}
    />
  );
  return (
    <fieldset className="fields checks">
      <legend>{legend}</legend>
      <div className="checks-list" role="group" aria-label={legend} tabIndex={0}>
        {groups.map(({ name, choices, all }) => (
          <div key={name} className="checks-group">
            <strong>{name}</strong>
            {all !== undefined && box(all, `all of ${name}, also later ones`)}
            {choices.map((choice) => box(choice, choice, all !== undefined && chosen.has(all)))}
          </div>
        ))}
      </div>
    </fieldset>
  );
}

function Check({
  label,
  words,
  isChecked,
  isDisabled,
  toggle,
}: {
  label: string;
  words: string | undefined;
  isChecked: boolean;
  isDisabled: boolean;
  toggle: () => void;
}): ReactNode {
  const id = useId();
  return (
    <div className="check">
      <input id={id} type="checkbox" checked={isChecked} disabled={isDisabled} onChange={toggle} />
      <label htmlFor={id}>
        {label}
        {words !== undefined && <div className="muted small">{words.replaceAll('`', '')}</div>}
      </label>
    </div>
  );
}
