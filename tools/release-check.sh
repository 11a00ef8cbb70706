#!/bin/sh
# Makes the release of the last commit twice, for the platforms $1, and says how many bytes differ: in two clones in folders of different
# names, and the second time with an empty build cache, so that every package is compiled twice. Nothing is signed, because a signature
# with ECDSA differs each time.
set -eu
platforms=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
first=$folder/first second=$folder/in/another/place
for clone in "$first" "$second"; do git -c advice.detachedHead=false clone -q . "$clone"; done
unset SOURCE_DATE_EPOCH
make -C "$first" release KEY= PUSH= PLATFORMS="$platforms"
GOCACHE=$folder/cache make -C "$second" release KEY= PUSH= PLATFORMS="$platforms"

first=$first/bin/release second=$second/bin/release
differ=0 files=0
for file in $( (cd "$first" && find . -type f && cd "$second" && find . -type f) | sort -u); do
	files=$((files + 1))
	if [ ! -f "$first/$file" ] || [ ! -f "$second/$file" ]; then
		echo "only one of the releases has $file" >&2
		bytes=$(cat "$first/$file" "$second/$file" 2>/dev/null | wc -c)
	else # cmp lists the bytes that differ, but not those that only the longer file has
		long=$(($(wc -c <"$first/$file") - $(wc -c <"$second/$file")))
		bytes=$(($( (cmp -l "$first/$file" "$second/$file" 2>/dev/null || true) | wc -l) + ${long#-}))
		if [ "$bytes" -gt 0 ]; then echo "$file differs" >&2; fi
	fi
	differ=$((differ + bytes))
done
echo "$differ bytes differ in $files files of two releases of commit $(git -C "$folder/first" rev-parse HEAD)"
[ "$differ" -eq 0 ] && [ "$files" -gt 0 ]
