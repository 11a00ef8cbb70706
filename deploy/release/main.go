// Command release makes a release: it compiles the programs, packs them, the container image and the charts, writes checksums, lists of
// contents (SBOM), provenance and signatures, and checks and pushes all of that. It needs no container daemon. The same commit makes the
// same files, byte for byte.
//
// It is a module of its own, so that its dependencies take no part in building the product.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

const usage = `usage: release image|build|verify|push [flags] …

  image   makes the container image alone:      image  -version 1.2.3 linux/amd64 linux/arm64=FILE
  build   makes the whole release:              build  -version 1.2.3 -key KEY.pem linux/amd64 darwin/arm64
  verify  checks a folder that build has made:  verify -key KEY.pub FOLDER
  push    pushes the image and the charts:      push   FOLDER REGISTRY/PATH`

func main() {
	log.SetFlags(0)
	// A signal ends a build by way of its errors, so that it removes its folder.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal("release: ", err)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet(arguments[0], flag.ExitOnError)
	switch arguments[0] {
	case "image":
		return runImage(ctx, flags, arguments[1:])
	case "build":
		return runBuild(ctx, flags, arguments[1:])
	case "verify":
		return runVerify(flags, arguments[1:])
	case "push":
		return runPush(flags, arguments[1:])
	}
	return fmt.Errorf("there is no command %q\n%s", arguments[0], usage)
}

// addFlags adds the flags of the commands that make files.
func (in *input) addFlags(flags *flag.FlagSet) {
	flags.StringVar(&in.source, "source", "../..", "folder of the repository")
	flags.StringVar(&in.name, "name", "tenon.sh/controller", "repository in the image's annotations")
	flags.StringVar(&in.version, "version", "", "version without v, which is also the image's tag")
	flags.StringVar(&in.revision, "revision", "", "commit that the programs are built from")
}

func runImage(ctx context.Context, flags *flag.FlagSet, arguments []string) error {
	var in input
	in.addFlags(flags)
	output := flags.String("output", "bin/image", "folder of the OCI layout, replaced if there is one")
	push := flags.String("push", "", "also push to this registry/repository:tag, with the credentials of the user's container tools")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	return makeImage(ctx, in, flags.Args(), *output, *push)
}

func runBuild(ctx context.Context, flags *flag.FlagSet, arguments []string) error {
	var in input
	in.addFlags(flags)
	output := flags.String("output", "bin/release", "folder of the release, replaced if there is one")
	key := flags.String("key", "", "sign with this private key: a PEM file, ed25519 or ECDSA, or one of cosign's with its password in COSIGN_PASSWORD")
	flags.StringVar(&in.builder, "builder", "https://tenon.sh/release/by-hand", "URI of the builder, for the provenance")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	return makeRelease(ctx, in, flags.Args(), *output, *key)
}

func runVerify(flags *flag.FlagSet, arguments []string) error {
	key := flags.String("key", "", "public key that must have signed the release: a PEM file")
	unsigned := flags.Bool("unsigned", false, "do not ask for a signature: checks only that the files fit together")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	switch {
	case flags.NArg() != 1:
		return errors.New("verify needs one folder: verify -key KEY.pub FOLDER")
	case (*key == "") != *unsigned:
		return errors.New("verify needs either -key, with the public key that you trust, or -unsigned")
	}
	return verify(os.Stdout, flags.Arg(0), *key)
}

func runPush(flags *flag.FlagSet, arguments []string) error {
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() != 2 {
		return errors.New("push needs a folder and a place: push FOLDER REGISTRY/PATH")
	}
	return push(os.Stdout, flags.Arg(0), flags.Arg(1))
}

// sourceDate is the time that the files say they were made: not now, or no two would be the same.
func sourceDate() (time.Time, error) {
	text := cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0")
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q, want seconds since 1970", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
