import { mutate } from '../../scripts/mutants/mutate.mjs';

/** Behind lua/lib/shared_budgets.lua: its invariants, once the budgets are written. */
const BUDGETS = `
  for _, budget in pairs(kept) do
    local former, figures = { budget.lasting_text, budget.is_brief, budget.is_plain }, {}
    note_lasting(budget)
    for text in string.gmatch(budget.moving_text, '[^,]+') do
      figures[#figures + 1] = int64.figure(text)
    end
    if figures[1] ~= budget.remaining_figure or figures[2] ~= budget.reserved_figure or figures[3] ~= budget.spent_figure
      or former[1] ~= budget.lasting_text or former[2] ~= budget.is_brief or former[3] ~= budget.is_plain then
      error('the texts of ' .. budget.key .. ' are not those of its figures')
    end
  end
  for budget in pairs(group.changed) do
    if not bring_up_to_date(budget, budget_figures.budget_fields(budget.key)) then
      error(budget.key .. ' is not what was written')
    end
  end
end
`;

/** Behind lua/lib/kept_counters.lua: its invariant, once the counters are written. */
const COUNTERS = `
  for key, hash in pairs(kept) do
    for field, counter in pairs(hash.is_ahead and {} or hash.counters) do
      local written = counter.text and action_counters.parse_counter(counter.text)
      if written and written.bucket == counter.bucket and (written.used ~= counter.used or written.told ~= counter.told) then
        error(field .. ' in ' .. key .. ' is not what its text says')
      end
    end
    if hash.is_ahead then
      error(key .. ' is ahead of what was written')
    end
  end
end
`;

/** The library with these checks at the end of each run. */
export function withInvariants(library: string): string {
  const behind = (text: string, last: string, check: string): string =>
    mutate(text, { what: 'check', find: `${last}end\n`, put: `${last}${check}` });
  return behind(
    behind(library, '    write_budget(budget, change, group.charged_windows[budget])\n  end\n', BUDGETS),
    '  group.turn, group.counted = nil, nil\n',
    COUNTERS,
  );
}
