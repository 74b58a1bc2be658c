/** Of the windows of budgets. @type {import('../list.mjs').Mutations} */
export const WINDOWS = {
  'lib/window_record.lua': [
    {
      what: 'a window turns a millisecond late',
      find: '    while ends <= now and plan[used + 1] do',
      put: '    while ends < now and plan[used + 1] do',
    },
    {
      what: 'a new window has what the former one had spent',
      find: 'limit = window.limit, spent = 0, starts = starts',
      put: 'limit = window.limit, spent = window.spent, starts = starts',
    },
    {
      what: 'a boundary is used twice',
      find: '      left[i] = { unpack(plan, used + 1) }',
      put: '      left[i] = { unpack(plan, used) }',
    },
    {
      what: 'what is held does not count in a window',
      find: '  return int64.sub(int64.sub(window.limit, window.spent), reserved) or LOWEST',
      put: '  return int64.sub(window.limit, window.spent)',
    },
    {
      what: 'the windows of a closed budget go on',
      find: "  if status == 'CLOSED' or not has_ended(windows, now) then\n    return windows",
      put: '  if not has_ended(windows, now) then\n    return windows',
    },
    {
      what: 'only the first window is looked at',
      find: '      return window.name, int64.text(room), window.limit\n    end',
      put: '      return window.name, int64.text(room), window.limit\n    end\n    if true then\n      return nil\n    end',
    },
  ],
  'lib/window_turn.lua': [
    {
      what: 'the windows of a closed budget turn',
      find: "  if status == 'CLOSED' or not window_record.has_ended(windows, now) then",
      put: '  if not window_record.has_ended(windows, now) then',
    },
    {
      what: 'a turn is not counted',
      find: "  redis.pcall('INCRBY', keys.turned(tag), turned)\n",
      put: '',
    },
    {
      what: 'nobody who waits is told of a turn',
      find: '  if record[2] then\n    waking.wake_waiters(key)\n  end\n',
      put: '',
    },
  ],
};
