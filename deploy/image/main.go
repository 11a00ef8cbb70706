// Command image puts binaries that are built into a container image: one for each platform, nothing else, no base image and
// no container daemon. It writes an OCI layout, a folder that other tools copy or load, and can push to a registry. The
// same binaries make the same digests.
//
// It is a module of its own so that what it needs takes no part in building the product.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"
)

func main() {
	log.SetFlags(0)
	var in input
	output := flag.String("output", "bin/image", "folder of the OCI layout, replaced if there is one")
	push := flag.String("push", "", "also push to this registry/repository:tag, with the credentials of the user's container tools")
	flag.StringVar(&in.name, "name", "tenon.sh/controller", "repository in the image's annotations")
	flag.StringVar(&in.version, "version", "", "version, which is the tag")
	flag.StringVar(&in.revision, "revision", "", "commit that the binaries were built from")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: image [flags] PLATFORM=BINARY…, such as linux/amd64=bin/tenon-amd64")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(in, flag.Args(), *output, *push); err != nil {
		log.Fatal(err)
	}
}

func run(in input, arguments []string, output, push string) (err error) {
	if in.binaries, err = parseBinaries(arguments); err != nil {
		return err
	}
	if in.created, err = sourceDate(); err != nil {
		return err
	}
	index, err := build(in)
	if err != nil {
		return err
	}
	if err := write(index, in, output); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%s  %s:%s@%s\n", output, in.name, in.version, digest)
	if push == "" {
		return nil
	}
	if err := pushTo(index, push); err != nil {
		return err
	}
	fmt.Printf("pushed %s@%s\n", push, digest)
	return nil
}

// sourceDate is the time that the image says it was made: not now, or no two would be the same.
func sourceDate() (time.Time, error) {
	text := cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0")
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q, want seconds since 1970", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
