-- wrk script: posts the file NEREID_BENCH_BODY; with NEREID_BENCH_JSON set, that many bytes of it are JSON and tensors
-- follow (the binary extension).
local file = assert(io.open(os.getenv("NEREID_BENCH_BODY"), "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
file:close()
wrk.headers["Content-Type"] = "application/octet-stream"
local json = os.getenv("NEREID_BENCH_JSON")
if json then
  wrk.headers["Inference-Header-Content-Length"] = json
end

-- With NEREID_BENCH_SEQUENCES set, the requests are those of so many sequences in turn, each thread's own. %PARAMETERS% in
-- the body is what a request says of its sequence.
local sequences = tonumber(os.getenv("NEREID_BENCH_SEQUENCES") or "0")
local threads = {}

function setup(thread)
  table.insert(threads, thread)
  thread:set("number", #threads)
  for _, one in ipairs(threads) do
    one:set("count", #threads)
  end
end

if sequences > 0 then
  local before, after = wrk.body:match("^(.*)%%PARAMETERS%%(.*)$")
  local sent = 0

  request = function()
    local who = sent % math.floor(sequences / count) * count + number
    sent = sent + 1
    return wrk.format(nil, nil, nil, before .. string.format('{"sequence_id":%d}', who) .. after)
  end
end

-- With NEREID_BENCH_DISTINCT set, %DISTINCT% in the body stands for three numbers that are each request's own: this one, the
-- thread's, and how many came before.
local base = os.getenv("NEREID_BENCH_DISTINCT")

if base then
  local before, after = wrk.body:match("^(.*)%%DISTINCT%%(.*)$")
  local sent = 0

  request = function()
    sent = sent + 1
    return wrk.format(nil, nil, nil, before .. string.format("%s,%d,%d", base, number, sent) .. after)
  end
end

-- With NEREID_BENCH_PAUSE set, a connection waits so many milliseconds before a request, on average.
local pause = tonumber(os.getenv("NEREID_BENCH_PAUSE") or "0")

if pause > 0 then
  delay = function()
    return math.random(0, 2 * pause)
  end
end

function done(summary, latency, requests)
  local errors = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.write
    + summary.errors.timeout
  io.write(string.format("RESULT %d %d %d %.3f %.3f %.3f\n", summary.requests, summary.duration, errors,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
