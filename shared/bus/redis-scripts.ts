import { hash } from 'node:crypto';

/** A Lua script and its SHA-1, under which Redis caches it. */
export interface Script {
  readonly source: string;
  readonly sha1: string;
}

function script(source: string): Script {
  return { source, sha1: hash('sha1', source, 'hex') };
}

// The epoch, `<ms> <replication id>`, is the time since which this server has kept every claim. If
// the epoch is missing or has another replication id, the script sets it to the later of Redis'
// clock and the caller's clock, so that a clock that is behind cannot set an epoch earlier than
// claims that were lost. Every start and promotion of Redis changes the replication id and can lose
// the newest writes. The epoch is read inside the script, so that no failover can happen between
// check and claim.
const ensureEpoch = `
local function ensureEpoch(key, callerMs)
  local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
  local epoch, by = string.match(redis.call('GET', key) or '', '^(%d+) (%x+)$')
  if not epoch or by ~= server then
    local time = redis.call('TIME')
    local nowMs = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    epoch = string.format('%.0f', math.max(nowMs, tonumber(callerMs)))
    redis.call('SET', key, epoch .. ' ' .. server)
  end
  return epoch
end
`;

/**
 * KEYS section, stream, index, epoch; ARGV name, value, ttlMs or 0, entriesMax, nonce, callerMs,
 * 'any' or 'if', expected ('' for absent). Returns 1 when stored.
 * Stream ids are `<n>-<nonce>`. n rises by one, so that a gap is detectable; the nonce
 * distinguishes entries with the same number after a stream was lost and restarted. The first n is
 * the time in ms, so that a restarted stream continues above the lost one. Commands that may fail
 * come first and the section last, so that an error leaves the section unchanged.
 */
export const storeScript = script(`
${ensureEpoch}
local name, value, ttlMs, entriesMax, nonce = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
ensureEpoch(KEYS[4], ARGV[6])
if ARGV[7] == 'if' and (redis.call('GET', KEYS[1]) or '') ~= ARGV[8] then return 0 end
local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)
local fields = {'name', name}
local n
if last[1] then
  n = tonumber(string.match(last[1][1], '^(%d+)')) + 1
else
  n = tonumber(redis.call('TIME')[1]) * 1000
  fields = {'name', name, 'first', '1'}
end
redis.call('SADD', KEYS[3], name)
redis.call('XADD', KEYS[2], 'MAXLEN', '=', entriesMax, string.format('%.0f', n) .. '-' .. nonce, unpack(fields))
if ttlMs > 0 then
  redis.call('SET', KEYS[1], value, 'PX', ttlMs)
else
  redis.call('SET', KEYS[1], value)
end
return 1
`);

/**
 * KEYS stream, index; ARGV section key prefix, then names (none: all). Returns the last stream id
 * and name, value, name, value … If the Redis user may write, removes the names of expired sections
 * from the index.
 */
export const loadScript = script(`
local names = {}
if #ARGV > 1 then
  for i = 2, #ARGV do names[#names + 1] = ARGV[i] end
else
  names = redis.call('SMEMBERS', KEYS[2])
end
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local reply = { last[1] and last[1][1] or '0-0' }
for _, name in ipairs(names) do
  local value = redis.call('GET', ARGV[1] .. name)
  if value then
    reply[#reply + 1] = name
    reply[#reply + 1] = value
  elseif #ARGV == 1 then
    redis.pcall('SREM', KEYS[2], name)
  end
end
return reply
`);

/**
 * KEYS stream; ARGV from, count. Returns 'ok' with ids and names after `from`, or 'gap' with the id
 * to continue from. A gap means that the last followed entry is missing, that numbers are not
 * consecutive, or that the reader had no entry yet and the first one is not marked as the stream's
 * first.
 */
export const sinceScript = script(`
local from, count = ARGV[1], ARGV[2]
local function gap()
  local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
  return { 'gap', last[1] and last[1][1] or '0-0' }
end
local entries
if from == '0-0' then
  entries = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', count)
  if entries[1] and entries[1][2][3] ~= 'first' then return gap() end
else
  if #redis.call('XRANGE', KEYS[1], from, from) == 0 then return gap() end
  entries = redis.call('XRANGE', KEYS[1], '(' .. from, '+', 'COUNT', count)
end
local reply = { 'ok' }
local before = from ~= '0-0' and tonumber(string.match(from, '^(%d+)')) or nil
for _, entry in ipairs(entries) do
  local n = tonumber(string.match(entry[1], '^(%d+)'))
  if before and n ~= before + 1 then return gap() end
  before = n
  reply[#reply + 1] = entry[1]
  reply[#reply + 1] = entry[2][2]
end
return reply
`);

/** KEYS claim, epoch; ARGV ttlMs, callerMs. Returns 1 or 0, and the epoch in ms. */
export const claimScript = script(`
${ensureEpoch}
local epoch = ensureEpoch(KEYS[2], ARGV[2])
local taken = redis.call('SET', KEYS[1], '1', 'NX', 'PX', ARGV[1])
return { taken and 1 or 0, epoch }
`);

/** KEYS counter; ARGV windowMs, by. Returns the count and the ms left. */
export const countScript = script(`
local count = redis.call('INCRBY', KEYS[1], ARGV[2])
local left = redis.call('PTTL', KEYS[1])
if left < 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  left = tonumber(ARGV[1])
end
return { count, left }
`);
