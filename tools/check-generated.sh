#!/bin/sh
# Fails if generating anew changes a file. What changed is left in place: it is what should have been committed.
set -eu
folders='api dashboard deploy docs'
before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
for folder in $folders; do
	[ ! -d "$folder" ] || cp -R "$folder" "$before"
done
go generate ./...
status=0
for folder in $folders; do
	[ -d "$folder" ] || continue
	if ! diff -ru "$before/$folder" "$folder"; then
		echo "generated files in $folder/ were out of date; now they are not: commit them" >&2
		status=1
	fi
done
exit $status
