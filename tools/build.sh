#!/bin/sh
# Builds the Go module in folder $1, or of the modules that it requires the package $4, into the file $2, saying how far it is:
# the first build compiles more than a thousand packages of Kubernetes and takes minutes, which looks like a hang if nothing is
# printed. $3 says what to expect.
# There is no -trimpath: with it nothing could be shared with the build cache of go vet and go test.
set -eu
folder=$1 output=$PWD/$2 expect=${3:-"the first time takes longest"} package=${4:-.}
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

mkdir -p "$(dirname "$output")"
cd "$folder"
echo "building $2"
total=$(go list -deps "$package" | wc -l)
flags='-s -w'
if [ -x ldflags.sh ]; then flags="$flags $(./ldflags.sh)"; fi # what this module has to be linked with
go build -v -ldflags "$flags" -o "$output" "$package" >"$log" 2>&1 &
build=$!

# A terminal gets one line that changes, a log file a new line now and then.
if [ -t 1 ]; then every=1 start='\r' end=''; else every=30 start='' end='\n'; fi
shown=
seconds=0
while kill -0 "$build" 2>/dev/null; do
	sleep 1
	seconds=$((seconds + 1))
	[ "$seconds" -ge 5 ] && [ $((seconds % every)) -eq 0 ] || continue
	compiled=$(wc -l <"$log")
	printf "$start  %4d of at most %d packages compiled, %d s ($expect)$end" \
		"$compiled" "$total" "$(elapsed)"
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
