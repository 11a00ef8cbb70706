#!/bin/sh
# Fails if generating anew changes a file. What changed is left in place: it is what should have been committed.
set -eu
before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
cp -R api deploy "$before" 2>/dev/null || cp -R api "$before"
go generate ./...
for folder in "$before"/*; do
	name=$(basename "$folder")
	if ! diff -ru "$folder" "$name"; then
		echo "generated files in $name/ were out of date; they are now up to date, commit them" >&2
		exit 1
	fi
done
