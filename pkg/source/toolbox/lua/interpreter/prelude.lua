-- The libraries of scripts, built on the functions of host, which are written in Go.
local host = ...
local date = os.date

-- Everything that is not listed here is removed.
local kept = {
  _G = "_G _VERSION assert error getmetatable ipairs next pairs pcall rawequal rawget rawset select setmetatable tonumber tostring type unpack xpcall string table math coroutine",
  string = "__index byte char find format gmatch gsub len lower match rep reverse sub upper",
  table = "concat insert maxn remove sort",
  math = "abs acos asin atan atan2 ceil cos cosh deg exp floor fmod frexp huge ldexp log log10 max min mod modf pi pow rad random randomseed sin sinh sqrt tan tanh",
  coroutine = "create resume running status yield",
}
local string, table, math, coroutine, _G = string, table, math, coroutine, _G
for library, list in pairs(kept) do
  local names, removed = {}, {}
  for name in string.gmatch(list, "[%w_]+") do names[name] = true end
  for name in pairs(_G[library]) do removed[#removed + 1] = not names[name] and name or nil end
  for _, name in ipairs(removed) do _G[library][name] = nil end
end

local error, ipairs, pairs, select, tostring, type, find = error, ipairs, pairs, select, tostring, type, string.find
json = {encode = host.encode, decode = host.decode}
local json = json

-- Functions that could take much memory in one step.
local rep, format = string.rep, string.format
function string.rep(s, n)
  if #s * n > host.most then error("string.rep: the result would be longer than " .. host.most .. " bytes", 3) end
  return rep(s, n)
end
function string.format(f, ...)
  if find(f, "%d%d%d") and find(f, "%%[^%a%%]*%d%d%d") then error("string.format: a width or precision has more than two digits", 3) end
  return format(f, ...)
end
table.unpack = unpack

local create, resume = host.create, coroutine.resume
coroutine.create = create
function coroutine.wrap(f)
  local thread = create(f)
  local function pass(ok, ...)
    if not ok then error((...), 0) end
    return ...
  end
  return function(...) return pass(resume(thread, ...)) end
end

function print(...)
  local words = {}
  for i = 1, select("#", ...) do words[i] = tostring((select(i, ...))) end
  host.print(table.concat(words, "\t") .. "\n")
end

-- tools: results have the fields of agents-exe, and in addition result and error, which are
-- easier to use.
tools = {}

local listed = {}
for _, name in ipairs(host.tools) do listed[name] = true end

local function plain(name) -- a program or an agent, whose result is text
  return find(name, "^bash_") or find(name, "^expert_") or find(name, "^io_")
end

local function result(call, r)
  local t = {status = "ok", duration = r.seconds, trace_id = r.id}
  if r.failed and not listed[call.name] and not find(string.lower(call.name), "^io_prompt_agent_") then
    t.status, t.error, t.result_txt = "not-allowed", r.text, r.text
  elseif r.failed then
    t.status, t.error, t.result_txt = "error", r.text, json.encode({type = "error", error = r.text})
  else
    local value
    if find(r.text, "^%s*[{%[]") then value = json.decode(r.text) end
    t.result = value or r.text
    if plain(call.name) then
      t.result_txt = json.encode({type = "blob", data = r.text})
    elseif value then
      t.result_txt = '{"type":"success","data":' .. r.text .. '}'
    else
      t.result_txt = json.encode({type = "success", data = r.text})
    end
  end
  return t
end

function tools.all(list)
  local calls, results = {}, {}
  for i, c in ipairs(list) do
    if type(c) ~= "table" or type(c[1]) ~= "string" then error("tools.all: entry " .. i .. " is not {name, {arguments}}", 3) end
    calls[i] = {name = c[1], args = json.encode(c[2] or {})}
    if calls[i].args == "[]" then calls[i].args = "{}" end
  end
  if #calls > 0 then
    for i, r in ipairs(host.call(calls)) do results[i] = result(calls[i], r) end
  end
  return results
end

function tools.call(name, args)
  if type(name) ~= "string" then error("tools.call: the name of a tool is missing", 3) end
  return tools.all({{name, args}})[1]
end

function tools.list()
  local copy = {}
  for i, name in ipairs(host.tools) do copy[i] = name end
  return copy
end

-- text: positions and lengths count characters, and no argument is a pattern.
text = {lower = string.lower, upper = string.upper}

function text.len(s) return select(2, string.gsub(s, "[^\128-\191]", "")) end
function text.trim(s) return (string.match(s, "^%s*(.-)%s*$")) end
function text.startswith(s, prefix) return string.sub(s, 1, #prefix) == prefix end
function text.endswith(s, suffix) return suffix == "" or string.sub(s, -#suffix) == suffix end

function text.split(s, separator)
  if separator == "" then error("text.split: the separator is empty", 3) end
  local parts, at = {}, 1
  while true do
    local first, last = find(s, separator, at, true)
    parts[#parts + 1] = string.sub(s, at, (first or 0) - 1)
    if not first then return parts end
    at = last + 1
  end
end

function text.find(s, what)
  local first = find(s, what, 1, true)
  if not first then return nil end
  local before = text.len(string.sub(s, 1, first - 1))
  return before + 1, before + text.len(what)
end

function text.gsub(s, what, with)
  local parts = text.split(s, what)
  return table.concat(parts, with), #parts - 1
end

function text.sub(s, first, last)
  local starts = {}
  for at in string.gmatch(s, "()[^\128-\191]") do starts[#starts + 1] = at end
  local n = #starts
  last = last or n
  if first < 0 then first = n + first + 1 end
  if last < 0 then last = n + last + 1 end
  if first < 1 or first > n or last < first then return "" end
  return string.sub(s, starts[first], (starts[last + 1] or #s + 1) - 1)
end

-- time: seconds since 1970, in UTC.
time = {now = host.now, sleep = host.sleep}
function time.format(seconds, f) return date("!" .. f, seconds) end
function time.diff(a, b) return a - b end

-- Libraries that scripts of agents-exe know and that do not exist here.
local function absent(name, instead)
  local function fail(_, key) error(name .. "." .. tostring(key) .. ": scripts have no library " .. name .. "; " .. instead, 3) end
  return setmetatable({}, {__index = fail, __newindex = fail, __metatable = false})
end
fs = absent("fs", "call a tool that reads or writes files")
http = absent("http", "call a tool that makes requests")
io = absent("io", "call a tool that reads or writes files; print writes to the result")
os = absent("os", "use time.now, time.sleep, time.format and time.diff; for anything else, call a tool")

local libraries = {json = json, text = text, time = time, tools = tools, string = string, table = table, math = math, coroutine = coroutine}
function require(name)
  return libraries[name] or error("there is no library " .. tostring(name) .. "; use json, text, time, tools, string, table, math or coroutine", 3)
end
