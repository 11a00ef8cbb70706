#!/bin/sh
# Runs the tests of all modules, $1 packages at a time, none for longer than $2. Those of Cluster API wait for machines most of
# their time, and run beside those of the root; what they say is printed when they have ended. Those with Prometheus have a minute of its
# rules in a second, and run before the many that want all of the machine.
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

failed=0
for module in controlplane deploy/test deploy/image; do
	(cd "$module" && go test -timeout "$2" ./...) || failed=$?
done
(cd endtoend/clusterapi && exec go test -timeout "$2" ./...) >"$log" 2>&1 &
beside=$!
go test -timeout "$2" ./endtoend/prometheus || failed=$?
go list ./... | grep -v '/endtoend/prometheus$' | xargs go test -p "$1" -timeout "$2" || failed=$?
wait "$beside" || failed=$?
beside=
cat "$log"
tools/browser.sh || true # without one the tests say what is missing
(cd dashboard/browsertest && go test -timeout "$2" ./...) || failed=$?
exit "$failed"
