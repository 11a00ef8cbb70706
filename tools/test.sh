#!/bin/sh
# Runs all tests but those that need a neighbour's program: the packages of the root module, $1 at a time, and beside them what waits for
# machines most of its time: the tests of the whole, in three parts with a control plane each, and the other modules. None may take longer
# than $2. The tests of the whole whose names match $3 are left out. What runs beside is printed when it has ended.
set -eu
packages_at_a_time=$1 timeout=$2 neighbours=$3
logs=$(mktemp -d)
beside=
finish() {
	status=$?
	for process in $beside; do kill "$process" 2>/dev/null || true; done
	rm -rf "$logs"
	exit $status
}
trap finish EXIT
trap 'exit 130' INT TERM

# vet has looked at everything in make check.
tests() { go test -vet=off -timeout "$timeout" "$@"; }

# whole runs every third of the tests of the whole, beginning with the $1th: none of them needs to know of the others.
whole() {
	tests ./endtoend -run "^($(tests ./endtoend -list . | grep '^Test' | grep -vE "$neighbours" | awk -v part="$1" 'NR % 3 == part' | paste -sd '|' -))\$"
}

# others runs what has machines that come as slowly as a cloud's, and the other modules.
others() {
	failed=0
	tests -p 2 ./endtoend/azure ./endtoend/clusterautoscaler || failed=1
	(cd controlplane && GOFLAGS=$CONTROLPLANE_GOFLAGS tests ./...) || failed=1
	for module in deploy/test deploy/image; do
		(cd "$module" && tests ./...) || failed=1
	done
	return "$failed"
}

# start runs something in the background.
start() {
	log=$logs/$1
	shift
	"$@" >"$log" 2>&1 &
	beside="$beside $!"
}

tests -run '^$' ./endtoend # compiles it once, not three times side by side
for part in 0 1 2; do start "whole$part" whole "$part"; done
start others others
failed=0
go list ./... | grep -v '^tenon.sh/endtoend' | xargs go test -vet=off -p "$packages_at_a_time" -timeout "$timeout" || failed=$?
for process in $beside; do wait "$process" || failed=$?; done
beside=
cat "$logs"/*
exit "$failed"
