#!/usr/bin/env bash
# Starts a server that speaks MongoDB's protocol, with empty state, and prints its URI as the last line:
#   scripts/mongodb-server.sh CACHE_DIRECTORY PORT
# A mongod on the PATH is preferred; otherwise FerretDB with its SQLite backend is built with Go, once per cache
# directory. CACHE_DIRECTORY/pid holds the process to kill. Fails with a message when neither can be had.
set -euo pipefail

ferretdb_version=v1.24.0
[ $# -eq 2 ] || { echo "usage: $0 CACHE_DIRECTORY PORT" >&2; exit 2; }
mkdir -p "$1"
cache="$(cd "$1" && pwd)"
port="$2"
state="$cache/state"
log="$cache/server.log"
fail() { echo "$*" >&2; exit 1; }

# Built in a copy of its module, which wants to be told its version; unlike `go install pkg@version` this needs no list
# of the module's versions.
build_ferretdb() {
  command -v go >/dev/null || fail 'There is neither a mongod nor Go on the PATH: no MongoDB server can be had'
  rm -rf "$cache/build"
  mkdir -p "$cache/build"
  {
    cd "$cache/build"
    printf 'module build\n\ngo 1.21\n' >go.mod
    module="$(go mod download -json "github.com/FerretDB/FerretDB@$ferretdb_version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')" && [ -d "$module" ] &&
      cp -r "$module" ferretdb && chmod -R u+w ferretdb && cd ferretdb &&
      echo "$ferretdb_version" >build/version/version.txt &&
      go build -buildvcs=false -o "$cache/ferretdb" ./cmd/ferretdb
  } >"$cache/build.log" 2>&1 || fail "FerretDB $ferretdb_version could not be built: $(tail -n 1 "$cache/build.log") (see $cache/build.log)"
  cd "$cache" && rm -rf "$cache/build"
}

if [ -f "$cache/pid" ]; then
  old="$(cat "$cache/pid")"
  case "$(ps -o comm= -p "$old" 2>/dev/null || true)" in mongod | ferretdb) kill "$old" && sleep 1 ;; esac
fi
rm -rf "$state"
mkdir -p "$state"
if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then fail "Port $port on 127.0.0.1 is taken"; fi

if command -v mongod >/dev/null; then
  nohup mongod --dbpath "$state" --port "$port" --bind_ip 127.0.0.1 >"$log" 2>&1 &
else
  [ -x "$cache/ferretdb" ] || build_ferretdb
  nohup "$cache/ferretdb" --handler=sqlite --telemetry=disable --mode=normal --debug-addr=- --log-level=error --listen-addr="127.0.0.1:$port" \
    --sqlite-url="file:$state/" --state-dir="$state" >"$log" 2>&1 &
fi
pid=$!
echo "$pid" >"$cache/pid"

for _ in $(seq 150); do
  kill -0 "$pid" 2>/dev/null || fail "The server ended at once: $(tail -n 3 "$log")"
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    echo "mongodb://127.0.0.1:$port/"
    exit 0
  fi
  sleep 0.2
done
kill "$pid" 2>/dev/null || true
fail "The server did not listen on port $port within 30 s (see $log)"
