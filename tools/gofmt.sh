#!/bin/sh
# Fails if a Go file is not formatted, and names it.
set -eu
unformatted=$(find . \( -path ./bin -o -path './.?*' \) -prune -o -name '*.go' -print | xargs "$(go env GOROOT)/bin/gofmt" -l)
[ -z "$unformatted" ] && exit
echo 'not formatted (gofmt -w them):' >&2
echo "$unformatted" >&2
exit 1
