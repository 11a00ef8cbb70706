#!/bin/sh
# Builds the Go module in folder $1, or of the modules that it requires the package $3, into the file $2, saying how far it is and what
# remains: the first build compiles more than a thousand packages of Kubernetes and takes minutes, which looks like a hang if nothing is
# printed. What remains is computed from the speed of a machine with two cores, $PACKAGES_PER_MINUTE, or from how fast it has been so far if
# that is slower: the packages that come last import the others and are the largest.
# There is no -trimpath: with it nothing could be shared with the build cache of go vet and go test.
set -eu
folder=$1 output=$PWD/$2 package=${3:-.}
packages_per_minute=${PACKAGES_PER_MINUTE:-250}
log=$(mktemp)
build=
finish() {
	status=$?
	if [ -n "$build" ]; then kill "$build" 2>/dev/null || true; fi
	rm -f "$log"
	exit $status
}
trap finish EXIT
trap 'exit 130' INT TERM

started=$(date +%s)
elapsed() { echo $(($(date +%s) - started)); }

# about says a number of seconds in words.
about() {
	if [ "$1" -lt 60 ]; then echo "less than a minute"; else echo "about $((($1 + 30) / 60)) min"; fi
}

mkdir -p "$(dirname "$output")"
cd "$folder"
flags='-s -w'
if [ -x ldflags.sh ]; then flags="$flags $(./ldflags.sh)"; fi # what this module has to be linked with
total=$(go list -deps -f '{{ if .Stale }}{{ .ImportPath }}{{ end }}' "$package" | grep -c . || true)
if [ "$total" -gt 50 ]; then
	echo "building $2: $total packages to compile, $(about $((total * 60 / packages_per_minute))) on two cores"
else
	echo "building $2"
fi
compiling=$(date +%s)
go build -v -ldflags "$flags" -o "$output" "$package" >"$log" 2>&1 &
build=$!

# A terminal gets one line that changes, a log file a new line now and then.
if [ -t 1 ]; then every=1 start='\r' end='      '; else every=30 start='' end='\n'; fi
shown=
seconds=0
while kill -0 "$build" 2>/dev/null; do
	sleep 1
	seconds=$((seconds + 1))
	[ "$seconds" -ge 5 ] && [ $((seconds % every)) -eq 0 ] || continue
	compiled=$(wc -l <"$log")
	remaining=$(((total - compiled) * 60 / packages_per_minute))
	if [ "$compiled" -gt $((total / 10)) ]; then
		so_far=$((($(date +%s) - compiling) * (total - compiled) / compiled))
		if [ "$so_far" -gt "$remaining" ]; then remaining=$so_far; fi
	fi
	if [ "$compiled" -lt "$total" ]; then
		printf "$start  %4d of %d packages compiled in %d s, %s to go$end" "$compiled" "$total" "$(elapsed)" "$(about "$remaining")"
	else
		printf "$start  %4d of %d packages compiled in %d s, linking$end" "$total" "$total" "$(elapsed)"
	fi
	shown=yes
done
if [ -n "$shown" ] && [ -t 1 ]; then echo; fi
status=0
wait "$build" || status=$?
build=
if [ "$status" -ne 0 ]; then
	# go build -v names each package; what is left is what went wrong.
	grep -v '^[A-Za-z0-9./_~-]*$' "$log" >&2 || cat "$log" >&2
	exit "$status"
fi
echo "built $2 in $(elapsed) s"
