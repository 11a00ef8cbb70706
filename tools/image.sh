#!/bin/sh
# Builds a container image of version $1 in bin/image, for the platforms $3 (linux/amd64 linux/arm64), without a container
# daemon, and pushes it to $4 if that is given. $2 is the revision that it says it was built from, which may be empty.
# The same sources make the same image, wherever they are built: hence -trimpath, which bin/tenon does without.
set -eu
version=$1 revision=$2 platforms=$3 push=$4
binaries=
for platform in $platforms; do
	system=${platform%/*} machine=${platform#*/}
	file=$PWD/bin/tenon-$system-$machine
	echo "building $file (the first time compiles everything for that platform)"
	CGO_ENABLED=0 GOAMD64=v1 GOARM64=v8.0 GOOS=$system GOARCH=$machine go build -trimpath \
		-ldflags "-s -w -X tenon.sh/cli.version=$version -X tenon.sh/cli.revision=$revision" -o "$file" .
	binaries="$binaries $platform=$file"
done
# The words of $binaries are arguments of their own.
# shellcheck disable=SC2086
go -C deploy/image run . -output "$PWD/bin/image" -version "$version" -revision "$revision" -push "$push" $binaries
