#!/bin/sh
# Runs all tests but those that need a neighbour's program: the packages of the root module, $1 at a time, and beside them what waits for
# machines most of its time: the tests of the whole, in three parts with a control plane each, and the other modules. None may take longer
# than $2. The tests of the whole whose names match $3 are left out. What runs beside is printed when it has ended. What computes yields to
# what waits for machines (nice), because that has limits of time. There is no vet: make check does that.
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

# whole runs every third of the tests of the whole, beginning with the $1th: none of them needs to know of the others.
whole() {
	names=$(go test -vet=off ./endtoend -list . | grep '^Test' | grep -vE "$neighbours" | awk -v part="$1" 'NR % 3 == part' | paste -sd '|' -)
	if [ -z "$names" ]; then
		echo "tools/test.sh: go test ./endtoend -list . names no tests" >&2
		exit 1
	fi
	exec go test -vet=off -timeout "$timeout" ./endtoend -run "^($names)\$"
}

# others runs what has machines that come as slowly as a cloud's, and the other modules.
others() {
	trap 'kill "$running" 2>/dev/null; exit 130' INT TERM
	failed=0 goflags=$GOFLAGS
	one . -p 2 ./endtoend/azure ./endtoend/clusterautoscaler || failed=1
	goflags=$CONTROLPLANE_GOFLAGS
	one controlplane ./... || failed=1
	goflags=$GOFLAGS
	for module in deploy/test deploy/image; do
		one "$module" ./... || failed=1
	done
	exit "$failed"
}

# one runs the tests of packages of a module, in the background so that a signal ends them.
one() {
	(cd "$1" && shift && GOFLAGS=$goflags exec go test -vet=off -timeout "$timeout" "$@") &
	running=$!
	wait "$running"
}

# start runs something in the background.
start() {
	log=$logs/$1
	shift
	"$@" >"$log" 2>&1 &
	beside="$beside $!"
}

packages=$(go list ./... | grep -v '^tenon.sh/endtoend')
go test -vet=off -run '^$' ./endtoend # compiles it once, not three times side by side
for part in 0 1 2; do start "whole$part" whole "$part"; done
start others others
failed=0
nice -n 5 go test -vet=off -p "$packages_at_a_time" -timeout "$timeout" $packages || failed=$?
for process in $beside; do wait "$process" || failed=$?; done
beside=
cat "$logs"/*
exit "$failed"
