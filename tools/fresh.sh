#!/usr/bin/env bash
# Runs commands as on a fresh machine, one after the other, and says how long each took: in a clone of the last commit, with an empty
# build cache and an empty module cache that are theirs alone. Without arguments: make demo ARGS=--exit, make test, and .ci/run, which finds the caches
# warm by then. FRESH_DIR is where all of that is, and stays: a second call with the same folder shows the same commands with warm caches.
#
#	tools/fresh.sh 'make demo ARGS=--exit' 'make test'
#	FRESH_DIR=/tmp/fresh tools/fresh.sh .ci/run
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${FRESH_DIR:-$(mktemp -d)}
if [ -z "${FRESH_DIR:-}" ]; then trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT; fi
mkdir -p "$dir/cache" "$dir/modules"
dir=$(cd "$dir" && pwd)
export GOCACHE=$dir/cache GOMODCACHE=$dir/modules
if [ -d "$dir/tree" ]; then
	git -C "$dir/tree" pull -q --ff-only
else
	git clone -q . "$dir/tree"
fi
cd "$dir/tree"
if [ $# -eq 0 ]; then set -- 'make demo ARGS=--exit' 'make test' .ci/run; fi
TIMEFORMAT='took %R s, %U s of CPU and %S s of the system'
for command in "$@"; do
	echo "==> $command"
	status=0
	time bash -c "$command" || status=$?
	if [ "$status" -ne 0 ]; then
		echo "==> $command failed with status $status" >&2
		exit "$status"
	fi
done
