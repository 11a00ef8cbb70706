#!/bin/sh
# Runs the tests of all modules, $1 packages at a time, none for longer than $2. The other modules, and what waits for machines most
# of its time, run beside those of the root, one after the other; what they say is printed when they have ended. Those with
# Prometheus have a minute of its rules in a second, and run first and alone: a controller that has to wait for the machine misses alerts.
set -eu
log=$(mktemp)
beside=
finish() {
	status=$?
	if [ -n "$beside" ]; then kill "$beside" 2>/dev/null || true; fi
	rm -f "$log"
	exit $status
}
trap finish EXIT
trap 'exit 130' INT TERM

# one runs the tests of packages of a module, in the background so that a signal ends them.
one() {
	(cd "$1" && shift && exec go test "$@") &
	running=$!
	wait "$running"
}
others() {
	trap 'kill "$running" 2>/dev/null; exit 130' INT TERM
	failed=0
	one endtoend/clusterapi -timeout "$1" ./... || failed=1
	one . -timeout "$1" ./endtoend/aws || failed=1
	for module in controlplane deploy/test deploy/image; do
		one "$module" -timeout "$1" ./... || failed=1
	done
	tools/browser.sh || true # without one the tests say what is missing
	one dashboard/browsertest -timeout "$1" ./... || failed=1
	exit "$failed"
}

failed=0
go test -timeout "$2" ./endtoend/prometheus || failed=$?
others "$2" >"$log" 2>&1 &
beside=$!
go list ./... | grep -v -e '/endtoend/prometheus$' -e '/endtoend/aws$' | xargs go test -p "$1" -timeout "$2" || failed=$?
wait "$beside" || failed=$?
beside=
cat "$log"
exit "$failed"
