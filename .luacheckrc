-- Read by scripts/lua/lint.mjs, which checks every file by itself.
std = 'lua51'
read_globals = { 'redis', 'cjson', 'cmsgpack', 'bit', 'struct', 'KEYS', 'ARGV', 'INCLUDED' }
max_line_length = false
