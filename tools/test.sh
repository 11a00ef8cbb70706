#!/usr/bin/env bash
# Runs all tests but those that need a neighbour's program. Four groups run side by side:
# - the end-to-end tests, in two halves with a control plane each, without those whose names match $3;
# - the end-to-end tests of Azure and of Cluster Autoscaler's objects, and the other Go modules;
# - the packages whose tests start a control plane of their own, $1 at a time;
# - all other packages, $1 at a time. They only compute, so they run with a lower priority (nice): the tests of the other groups have time
#   limits, and fail if a control plane gets no processor.
# A package's tests may take $2. The script prints the output of the first three groups at the end. It does not vet, because make check does.
set -euo pipefail
packages_at_a_time=$1 timeout=$2 neighbours=$3
logs=$(mktemp -d)
running=()
finish() {
	status=$?
	for group in ${running[@]+"${running[@]}"}; do kill -TERM -- "-$group" 2>/dev/null || true; done
	rm -rf "$logs"
	exit $status
}
trap finish EXIT
trap 'exit 130' INT TERM

# start runs something in the background, in a process group of its own, so that all of it ends with this script.
start() {
	set -m
	"$@" &
	set +m
	running+=($!)
}

# tests runs the tests of a module's packages.
tests() { (cd "$1" && shift && go test -vet=off -timeout "$timeout" "$@"); }

# others runs what has machines that come as slowly as a cloud's, and the other modules.
others() {
	local failed=0
	tests . -p 1 ./endtoend/azure ./endtoend/clusterautoscaler || failed=1
	GOFLAGS=$CONTROLPLANE_GOFLAGS tests controlplane ./... || failed=1
	tests deploy/release -count 1 ./... || failed=1 # it reads charts and pages, and go test caches without regard to them
	return "$failed"
}

packages=$(go list -f '{{ .ImportPath }} {{ .TestImports }} {{ .XTestImports }}' ./... | grep -v '^tenon.sh/endtoend')
with_server=$(echo "$packages" | grep -e playgroundtest -e '^tenon.sh ' | cut -d ' ' -f 1)
computing=$(echo "$packages" | grep -v -e playgroundtest -e '^tenon.sh ' | cut -d ' ' -f 1)
go test -vet=off ./endtoend -list . >"$logs/all" # compiles it once, not twice side by side
grep '^Test' "$logs/all" | grep -vE "$neighbours" >"$logs/names"
for part in 0 1; do # every second of the tests of the whole: none of them needs to know of the others
	names=$(awk -v part="$part" 'NR % 2 == part' "$logs/names" | paste -sd '|' -)
	start tests . ./endtoend -run "^($names)\$" >"$logs/part$part" 2>&1
done
start others >"$logs/part2" 2>&1
start tests . -p "$packages_at_a_time" $with_server >"$logs/part3" 2>&1
start nice -n 10 go test -vet=off -p "$packages_at_a_time" -timeout "$timeout" $computing
failed=0
for process in "${running[@]}"; do wait "$process" || failed=1; done
running=()
cat "$logs"/part*
exit "$failed"
