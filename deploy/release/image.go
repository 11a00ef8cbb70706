package main

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	program = "tenon"
	// user is nobody that a system knows: no process of a node has that number. The chart demands the same.
	user = "65532:65532"
)

// input is what an image and a release are made of.
type input struct {
	source                  string // folder of the repository
	name, version, revision string
	builder                 string // URI
	created                 time.Time
	binaries                []binary
}

// makeImage makes the image alone, and pushes it if to is given.
func makeImage(ctx context.Context, in input, arguments []string, output, to string) (err error) {
	if in.binaries, err = parseBinaries(arguments); err != nil {
		return err
	}
	if in.created, err = sourceDate(); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := in.compileAll(ctx, folder); err != nil {
		return err
	}
	index, err := buildImage(in)
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
	if to == "" {
		return nil
	}
	reference, err := name.ParseReference(to, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("push to %q: %w", to, err)
	}
	if err := pushIndex(reference, index); err != nil {
		return err
	}
	fmt.Printf("pushed %s@%s\n", to, digest)
	return nil
}

// buildImage makes an index with one image for each binary.
func buildImage(in input) (v1.ImageIndex, error) {
	if in.version == "" {
		return nil, fmt.Errorf("an image needs a version: -version 1.2.3")
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range in.binaries {
		image, err := imageOf(in, b)
		if err != nil {
			return nil, fmt.Errorf("image for %s: %w", b.platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &b.platform}})
	}
	return mutate.Annotations(index, in.labels()).(v1.ImageIndex), nil
}

// imageOf is the image for one platform.
func imageOf(in input, b binary) (v1.Image, error) {
	content, err := os.ReadFile(b.file)
	if err != nil {
		return nil, err
	}
	if err := fits(content, b.platform); err != nil {
		return nil, fmt.Errorf("%s: %w", b.file, err)
	}
	archive, err := archiveOf(content, in.created)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: b.platform.OS, Architecture: b.platform.Architecture, Created: v1.Time{Time: in.created},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Entrypoint:   []string{"/" + program},
			Env:          []string{"PATH=/"}, // so that kubectl exec finds it without a path
			User:         user,
			WorkingDir:   "/",
			ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}},
			Labels:       in.labels(),
		},
	})
	if err != nil {
		return nil, err
	}
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: in.created}, CreatedBy: program + " " + in.version},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, in.labels()).(v1.Image), nil
}

// fits reports why a file cannot run in an image without anything else: it is for another platform, or it needs a loader
// and libraries that are not there.
func fits(content []byte, platform v1.Platform) error {
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	file, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("not a binary of Linux: %w", err)
	}
	if want, known := machines[platform.Architecture]; platform.OS != "linux" || !known || file.Machine != want {
		return fmt.Errorf("it is for linux and %s, not for %s", file.Machine, platform)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("it is linked dynamically: build it with CGO_ENABLED=0")
		}
	}
	return nil
}

// archiveOf is a tar archive of the program alone, which everybody may run and nobody may change.
func archiveOf(content []byte, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	header := &tar.Header{Name: program, Typeflag: tar.TypeReg, Mode: 0o555, Size: int64(len(content)), ModTime: at, Format: tar.FormatUSTAR}
	if err := w.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	return out.Bytes(), w.Close()
}

// labels say what the image is, with the keys of the OCI image specification.
func (in *input) labels() map[string]string {
	out := map[string]string{
		"org.opencontainers.image.title":       "Tenon",
		"org.opencontainers.image.description": "Kubernetes node autoscaler that speaks Karpenter's API",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     in.version,
		"org.opencontainers.image.created":     in.created.Format(time.RFC3339),
	}
	if in.revision != "" {
		out["org.opencontainers.image.revision"] = in.revision
	}
	return out
}

// write writes the index as the only one of an OCI layout, under its name and tag.
func write(index v1.ImageIndex, in input, folder string) error {
	if _, err := os.Stat(folder); err == nil {
		if _, err := layout.FromPath(folder); err != nil {
			return fmt.Errorf("%s is there and is no OCI layout, so it is not replaced: %w", folder, err)
		}
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return fmt.Errorf("write the OCI layout %s: %w", folder, err)
	}
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": in.version,
		"io.containerd.image.name":          in.name + ":" + in.version,
	}))
	if err != nil {
		return fmt.Errorf("write the OCI layout %s: %w", folder, err)
	}
	return nil
}
