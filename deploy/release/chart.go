package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/Masterminds/semver/v3"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// Helm's media types, in pkg/registry of its module, which would link a container daemon's client.
const (
	helmConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	helmContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

const refName = "org.opencontainers.image.ref.name"

// chartNames are the folders of deploy/charts, in the order in which users install them.
var chartNames = []string{"karpenter-crd", "karpenter"}

// loadCharts reads the charts as Helm does, and reports a chart that is not of this version.
func (in *input) loadCharts() (out []*chart.Chart, err error) {
	for _, name := range chartNames {
		folder := filepath.Join(in.source, "deploy", "charts", name)
		c, err := loader.LoadDir(folder)
		if err != nil {
			return nil, fmt.Errorf("chart %s: %w", name, err)
		}
		if _, err := semver.StrictNewVersion(in.version); err != nil {
			return nil, fmt.Errorf("release %s: this is no semantic version; set one in %s/Chart.yaml, or release %s", in.version, folder, c.Metadata.Version)
		}
		if c.Metadata.Version != in.version || c.Metadata.AppVersion != in.version {
			return nil, fmt.Errorf("release %s: %s/Chart.yaml has version %s and appVersion %s; set both to %s, or release %s",
				in.version, folder, c.Metadata.Version, c.Metadata.AppVersion, in.version, c.Metadata.Version)
		}
		out = append(out, c)
	}
	return out, nil
}

// packChart packs a chart as `helm package` does, but without the present time.
func packChart(c *chart.Chart, at time.Time) ([]byte, error) {
	var entries []entry
	for _, f := range c.Raw {
		entries = append(entries, entry{c.Name() + "/" + f.Name, 0o644, f.Data})
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return tarGz(entries, at)
}

func chartFile(c *chart.Chart) string { return c.Name() + "-" + c.Metadata.Version + ".tgz" }

// writeCharts writes each chart as a file, and all as artefacts of an OCI layout, in the form that `helm push` makes.
func writeCharts(charts []*chart.Chart, at time.Time, folder string) error {
	path, err := layout.Write(filepath.Join(folder, chartsFolder), empty.Index)
	if err != nil {
		return err
	}
	for _, c := range charts {
		content, err := packChart(c, at)
		if err != nil {
			return fmt.Errorf("chart %s: %w", c.Name(), err)
		}
		if err := os.WriteFile(filepath.Join(folder, chartFile(c)), content, 0o644); err != nil {
			return err
		}
		if err := appendChart(path, c, content, at); err != nil {
			return fmt.Errorf("chart %s: %w", c.Name(), err)
		}
	}
	return nil
}

func appendChart(path layout.Path, c *chart.Chart, content []byte, at time.Time) error {
	metadata, err := json.Marshal(c.Metadata)
	if err != nil {
		return err
	}
	config, err := writeBlob(path, helmConfig, metadata)
	if err != nil {
		return err
	}
	layer, err := writeBlob(path, helmContent, content)
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config, Layers: []v1.Descriptor{layer},
		Annotations: map[string]string{
			"org.opencontainers.image.title":       c.Name(),
			"org.opencontainers.image.version":     c.Metadata.Version,
			"org.opencontainers.image.description": c.Metadata.Description,
			"org.opencontainers.image.created":     at.Format(time.RFC3339),
		},
	})
	if err != nil {
		return err
	}
	descriptor, err := writeBlob(path, types.OCIManifestSchema1, manifest)
	if err != nil {
		return err
	}
	descriptor.Annotations = map[string]string{refName: c.Name() + "-" + c.Metadata.Version}
	return path.AppendDescriptor(descriptor)
}

// writeBlob stores bytes of an OCI layout.
func writeBlob(path layout.Path, kind types.MediaType, content []byte) (v1.Descriptor, error) {
	hash, size, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: kind, Size: size, Digest: hash}, path.WriteBlob(hash, readCloser(content))
}
