package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// built is the product for Linux on this machine's processor, compiled once for all tests.
var built = sync.OnceValues(func() (string, error) {
	file, err := filepath.Abs("../../bin/tenon-to-test-the-image")
	if err != nil {
		return "", err
	}
	// Without -trimpath what other tests compiled is used again.
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-s -w -X tenon.sh/cli.version=1.2.3 -X tenon.sh/cli.revision=0123456789", "-o", file, ".")
	build.Dir = "../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, output)
	}
	return file, nil
})

// example is what the image for this machine is made of.
func example(t *testing.T) input {
	t.Helper()
	file, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return input{name: "tenon.sh/controller", version: "1.2.3", revision: "0123456789", created: time.Unix(0, 0).UTC(),
		binaries: []binary{{v1.Platform{OS: "linux", Architecture: runtime.GOARCH}, file}}}
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// written is the image of an OCI layout, found the way that other tools find it.
func written(t *testing.T, folder string) (index v1.Descriptor, image v1.Image) {
	t.Helper()
	path := must(layout.FromPath(folder))(t)
	root := must(path.ImageIndex())(t)
	top := must(root.IndexManifest())(t)
	if len(top.Manifests) != 1 || top.Manifests[0].MediaType != types.OCIImageIndex {
		t.Fatalf("index.json lists %v", top.Manifests)
	}
	index = top.Manifests[0]
	platforms := must(root.ImageIndex(index.Digest))(t)
	if err := validate.Index(platforms); err != nil {
		t.Error(err)
	}
	list := must(platforms.IndexManifest())(t)
	for _, m := range list.Manifests {
		if m.Platform.String() == "linux/"+runtime.GOARCH {
			return index, must(platforms.Image(m.Digest))(t)
		}
	}
	t.Fatalf("no image for this machine: %v", list.Manifests)
	return index, nil
}

func TestTheImageHoldsOneProgramThatRunsAsNobody(t *testing.T) {
	t.Parallel()
	in, folder := example(t), filepath.Join(t.TempDir(), "image")
	if err := write(must(buildImage(in))(t), in, folder); err != nil {
		t.Fatal(err)
	}
	descriptor, image := written(t, folder)
	if got := descriptor.Annotations; got["org.opencontainers.image.ref.name"] != "1.2.3" || got["io.containerd.image.name"] != "tenon.sh/controller:1.2.3" {
		t.Errorf("the layout calls it %v", got)
	}
	file := must(image.ConfigFile())(t)
	config := file.Config
	if !slices.Equal(config.Entrypoint, []string{"/tenon"}) || len(config.Cmd) > 0 || config.User != "65532:65532" || file.OS != "linux" || file.Architecture != runtime.GOARCH {
		t.Errorf("%+v", file)
	}
	if ports := slices.Sorted(maps.Keys(config.ExposedPorts)); !slices.Equal(ports, []string{"8080/tcp", "8081/tcp"}) {
		t.Errorf("ports %v", ports)
	}
	for key, want := range map[string]string{"version": "1.2.3", "revision": "0123456789", "created": "1970-01-01T00:00:00Z", "title": "Tenon"} {
		if got := config.Labels["org.opencontainers.image."+key]; got != want {
			t.Errorf("label %s is %q, want %q", key, got, want)
		}
	}
	header, content := onlyFile(t, image)
	if header.Name != "tenon" || header.Mode != 0o555 || header.Uid != 0 || header.Typeflag != tar.TypeReg {
		t.Errorf("the layer holds %+v", header)
	}
	info := must(buildinfo.Read(bytes.NewReader(content)))(t)
	if !slices.ContainsFunc(info.Deps, func(m *debug.Module) bool { return m.Path == "golang.org/x/crypto/x509roots/fallback" }) {
		t.Error("the program has no roots of its own: without a system it could trust nobody")
	}
	runs(t, content)
}

// runs: the program from the layer starts without anything else around it.
func runs(t *testing.T, content []byte) {
	t.Helper()
	switch {
	case runtime.GOOS == "linux":
	case os.Getenv("CI") != "":
		t.Fatal("the image's program can only be run on Linux")
	default:
		t.Skip("the image's program was not run: this is not Linux")
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "tenon")
	// A process that another test starts now would inherit the open file, and Linux runs no file that somebody may write to.
	syscall.ForkLock.RLock()
	err := os.WriteFile(file, content, 0o555)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(file, "version")
	command.Dir, command.Env = folder, []string{"PATH=/"}
	output, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "version    1.2.3\ncommit     0123456789\n") {
		t.Errorf("tenon version: %v\n%s", err, output)
	}
}

// onlyFile is the one file in all layers of the image.
func onlyFile(t *testing.T, image v1.Image) (*tar.Header, []byte) {
	t.Helper()
	layers := must(image.Layers())(t)
	if len(layers) != 1 {
		t.Fatalf("%d layers", len(layers))
	}
	archive := tar.NewReader(must(layers[0].Uncompressed())(t))
	header := must(archive.Next())(t)
	content := must(io.ReadAll(archive))(t)
	if next, err := archive.Next(); err != io.EOF {
		t.Fatalf("there is more in the layer: %v, %v", next, err)
	}
	return header, content
}

// The chart starts the image with its entrypoint, as its user, and asks the ports that it names.
func TestTheImageIsWhatTheChartStarts(t *testing.T) {
	t.Parallel()
	image := must(imageOf(example(t), example(t).binaries[0]))(t)
	config := must(image.ConfigFile())(t).Config
	chart := string(must(os.ReadFile("../charts/karpenter/templates/deployment.yaml"))(t)) + string(must(os.ReadFile("../charts/karpenter/values.yaml"))(t))
	id, group, _ := strings.Cut(config.User, ":")
	for _, want := range []string{"runAsUser: " + id + "\n", "runAsGroup: " + group + "\n", "args: [controller]\n", "repository: tenon.sh/controller\n"} {
		if !strings.Contains(chart, want) {
			t.Errorf("the chart does not say %q", want)
		}
	}
	if strings.Contains(chart, "command:") {
		t.Error("the chart does not leave the program to the image")
	}
	for port := range config.ExposedPorts {
		if !strings.Contains(chart, "port: "+strings.TrimSuffix(port, "/tcp")+"\n") {
			t.Errorf("the chart knows no port %s", port)
		}
	}
}

func TestTheSameBinariesMakeTheSameImage(t *testing.T) {
	t.Parallel()
	first, in := must(buildImage(example(t)))(t), example(t)
	copied := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.WriteFile(copied, must(os.ReadFile(in.binaries[0].file))(t), 0o600); err != nil {
		t.Fatal(err)
	}
	in.binaries[0].file = copied
	second := must(buildImage(in))(t)
	if a, b := must(first.Digest())(t), must(second.Digest())(t); a != b {
		t.Errorf("%s and %s", a, b)
	}
	in.version = "1.2.4"
	if a, b := must(first.Digest())(t), must(must(buildImage(in))(t).Digest())(t); a == b {
		t.Error("another version is the same image")
	}
}

func TestAnImageCanBePushed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	to := strings.TrimPrefix(server.URL, "http://") + "/team/controller:1.2.3"
	folder := filepath.Join(t.TempDir(), "image")
	if err := makeImage(t.Context(), input{name: "tenon.sh/controller", version: "1.2.3"}, []string{"linux/" + runtime.GOARCH + "=" + example(t).binaries[0].file}, folder, to); err != nil {
		t.Fatal(err)
	}
	pulled := must(remote.Index(must(name.ParseReference(to))(t)))(t)
	descriptor, _ := written(t, folder)
	if got := must(pulled.Digest())(t); got != descriptor.Digest {
		t.Errorf("pushed %s, wrote %s", got, descriptor.Digest)
	}
}

func TestABinaryThatCannotRunInTheImageIsRefused(t *testing.T) {
	t.Parallel()
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	own := example(t).binaries[0].file
	for argument, want := range map[string]string{
		"linux/" + other + "=" + own: "not for linux/" + other,
		"linux/amd64=" + text:        "not a binary of Linux",
		"linux/amd64=/none":          "no such file",
		"linux=" + own:               "want linux/amd64, or",
		"linux/amd64=":               "want linux/amd64, or linux/amd64=FILE",
	} {
		err := makeImage(t.Context(), input{name: "n", version: "1"}, []string{argument}, filepath.Join(t.TempDir(), "image"), "")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", argument, err)
		}
	}
	if err := makeImage(t.Context(), input{name: "n", version: "1"}, nil, t.TempDir(), ""); err == nil {
		t.Error("an image without a binary")
	}
}

func TestAFolderThatIsNoImageIsLeftAlone(t *testing.T) {
	t.Parallel()
	in, folder := example(t), t.TempDir()
	precious := filepath.Join(folder, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(must(buildImage(in))(t), in, folder); err == nil {
		t.Error("replaced")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}
