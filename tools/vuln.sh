#!/bin/sh
# Looks for known vulnerabilities in code that packages of the root module call: the packages are $2 and the next. The database is Go's, or
# the mirror $1 if that is not empty. Fails if something is found, and if the database cannot be read: then nothing was checked.
set -eu
cd "$(dirname "$0")/.."
database=$1
shift
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
status=0
go tool -modfile=tools/go.mod govulncheck ${database:+-db "$database"} "$@" 2>"$errors" || status=$?
reason=$(sed -nE 's/^(govulncheck: )?(fetching vulnerabilities|creating client): //p' "$errors")
if [ -n "$reason" ]; then
	echo "make vuln: the vulnerability database cannot be read, so nothing was checked: $reason" >&2
	echo "make vuln: DB=URL names a mirror of the database; a folder is file://PATH" >&2
else
	cat "$errors" >&2
fi
exit "$status"
