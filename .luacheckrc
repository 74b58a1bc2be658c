-- Read by scripts/lint-lua.mjs, which checks every script with its parts in one text.
std = 'lua51'
read_globals = { 'redis', 'cjson', 'cmsgpack', 'bit', 'struct', 'KEYS', 'ARGV' }
max_line_length = false
