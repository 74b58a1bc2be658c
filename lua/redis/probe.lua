#!lua flags=allow-oom
-- probe: prove that this user may run a script that writes, and every command that scripts use.
-- allow-oom: a full Redis still runs the scripts that return budget. The memory guard tells of it.
--
-- ARGV[1]   key            any key of the ledger
-- ARGV[2]   channel        any channel of the service
-- ARGV[...] commands, each with its subcommand behind a space if it has some
-- RETURNS   denied*
-- BOUND     the commands given
-- EMITS     nothing
--
-- Redis refuses a script without the flag no-writes whenever it would refuse a write: with too few replicas, after a
-- disk failed, as a replica. This one changes nothing.
local key, channel = ARGV[1], ARGV[2]

local denied = {}
for i = 3, #ARGV do
  local name, subcommand = string.match(ARGV[i], '^(%S+) ?(%S*)$')
  local words = { name, name == 'PUBLISH' and channel or key, '0', '0', '0' }
  if subcommand ~= '' then
    table.insert(words, 2, subcommand)
  end
  if not redis.acl_check_cmd(unpack(words)) then
    denied[#denied + 1] = ARGV[i]
  end
end
return denied
