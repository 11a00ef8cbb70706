package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"helm.sh/helm/v3/pkg/chart/loader"
)

func TestAReleaseIsPushedToARegistry(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	place := strings.TrimPrefix(server.URL, "http://") + "/team"
	r := must(released())(t)
	var out bytes.Buffer
	if err := push(&out, r.folder, "oci://"+place+"/"); err != nil {
		t.Fatal(err)
	}
	image := must(artefactsOf(filepath.Join(r.folder, imageFolder)))(t)[0]
	if got := must(must(remote.Index(must(name.ParseReference(place + "/controller:0.1.0"))(t)))(t).Digest())(t); got != image.Digest {
		t.Errorf("the registry has %s, the release %s", got, image.Digest)
	}
	for _, chartName := range chartNames {
		chart := must(remote.Image(must(name.ParseReference(place + "/" + chartName + ":0.1.0"))(t)))(t)
		manifest := must(chart.Manifest())(t)
		if manifest.Config.MediaType != helmConfig || len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != helmContent {
			t.Fatalf("%s: Helm would not know %+v", chartName, manifest)
		}
		content := must(io.ReadAll(must(must(chart.Layers())(t)[0].Compressed())(t)))(t)
		c := must(loader.LoadArchive(bytes.NewReader(content)))(t)
		if err := c.Validate(); err != nil || c.Name() != chartName || c.Metadata.Version != version {
			t.Errorf("%s: %v, %+v", chartName, err, c.Metadata)
		}
	}
	if want := "pushed " + place + "/controller:0.1.0@" + image.Digest.String() + "\npushed " + place + "/karpenter-crd:0.1.0@"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("%s, want first %s", &out, want)
	}
}

func TestARegistryThatRefusesIsNamed(t *testing.T) {
	t.Parallel()
	r := must(released())(t)
	for status, want := range map[int]string{
		http.StatusUnauthorized: "the registry refuses: log in with an account that may push there",
		http.StatusForbidden:    "the registry refuses: log in with an account that may push there",
		http.StatusNotFound:     "the registry does not know the repository: create it there first",
		http.StatusBadRequest:   "unexpected status code 400",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v2/" {
				return // the registry itself answers
			}
			w.WriteHeader(status)
			fmt.Fprint(w, `{"errors":[{"code":"BAD","message":"no"}]}`)
		}))
		t.Cleanup(server.Close)
		place := strings.TrimPrefix(server.URL, "http://") + "/team"
		var out bytes.Buffer
		err := push(&out, r.folder, place)
		if err == nil || !strings.HasPrefix(err.Error(), "push to "+place+"/controller:0.1.0: ") || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%d: %v, want %q\n%s", status, err, want, &out)
		}
	}
	// Nobody listens on port 1. A port that a test has closed may be another test's by now.
	if err := push(io.Discard, r.folder, "127.0.0.1:1/team"); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Error(err)
	}
	if err := push(io.Discard, r.folder, "Team Registry"); err == nil || !strings.Contains(err.Error(), `push to "Team Registry/controller:0.1.0"`) {
		t.Error(err)
	}
}

func TestAChangedReleaseIsNotPushed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	folder, _ := copied(t)
	change(t, folder, "karpenter-0.1.0.tgz", appended)
	if err := push(io.Discard, folder, strings.TrimPrefix(server.URL, "http://")+"/team"); err == nil || !strings.Contains(err.Error(), "karpenter-0.1.0.tgz was changed") {
		t.Error(err)
	}
}
