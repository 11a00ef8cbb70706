package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// A binary is the program for one platform. It is compiled if file is "".
type binary struct {
	platform v1.Platform
	file     string
}

// label names the platform in names of files.
func (b *binary) label() string { return b.platform.OS + "-" + b.platform.Architecture }

// parseBinaries reads arguments such as linux/amd64, or linux/amd64=FILE for a program that is built already.
func parseBinaries(arguments []string) (out []binary, err error) {
	seen := map[string]bool{}
	for _, a := range arguments {
		platform, file, given := strings.Cut(a, "=")
		system, machine, _ := strings.Cut(platform, "/")
		if system == "" || machine == "" || given && file == "" || strings.Contains(machine, "/") {
			return nil, fmt.Errorf("%q is not a platform: want linux/amd64, or linux/amd64=FILE", a)
		}
		if seen[platform] {
			return nil, fmt.Errorf("%s is there twice", platform)
		}
		seen[platform] = true
		out = append(out, binary{v1.Platform{OS: system, Architecture: machine}, file})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("want at least one platform, such as linux/amd64")
	}
	return out, nil
}

// compileAll compiles the programs that are not built yet, into a folder.
func (in *input) compileAll(ctx context.Context, folder string) error {
	for i := range in.binaries {
		b := &in.binaries[i]
		if b.file != "" {
			continue
		}
		b.file = filepath.Join(folder, program+"-"+b.label())
		fmt.Printf("building for %s (the first time compiles everything for that platform)\n", b.platform)
		if err := in.compile(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// compile builds one program. -trimpath leaves the folder out of it, and settings of the user that would change it are not passed on.
func (in *input) compile(ctx context.Context, b *binary) error {
	file, err := filepath.Abs(b.file)
	if err != nil {
		return err
	}
	flags := fmt.Sprintf("-s -w -X tenon.sh/cli.version=%s -X tenon.sh/cli.revision=%s", in.version, in.revision)
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", file, ".")
	build.Dir = in.source
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOOS="+b.platform.OS, "GOARCH="+b.platform.Architecture)
	output, err := build.CombinedOutput()
	if ctx.Err() != nil {
		return fmt.Errorf("build for %s: %w", b.platform, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("build for %s: %w\n%s", b.platform, err, output)
	}
	return nil
}

// isFor reports why a program cannot be the one for the platform.
func (b *binary) isFor() error {
	info, err := buildinfo.ReadFile(b.file)
	if err != nil {
		return fmt.Errorf("program for %s: %w", b.platform, err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["GOOS"] != b.platform.OS || settings["GOARCH"] != b.platform.Architecture {
		return fmt.Errorf("%s is for %s/%s, not for %s", b.file, settings["GOOS"], settings["GOARCH"], b.platform)
	}
	return nil
}
