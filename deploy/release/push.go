package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// push pushes the image of a release to PLACE/controller and each chart to PLACE/NAME, all with the release's version as tag. Charts come
// last, so that no chart names an image that is not there.
func push(out io.Writer, folder, place string) error {
	if err := checkSums(folder); err != nil {
		return err
	}
	images, err := artefactsOf(filepath.Join(folder, imageFolder))
	if err != nil {
		return err
	}
	charts, err := artefactsOf(filepath.Join(folder, chartsFolder))
	if err != nil {
		return err
	}
	place = strings.TrimSuffix(strings.TrimPrefix(place, "oci://"), "/")
	for _, image := range images {
		version := image.Annotations[refName]
		index, err := layout.ImageIndexFromPath(filepath.Join(folder, imageFolder))
		if err != nil {
			return err
		}
		if index, err = index.ImageIndex(image.Digest); err != nil {
			return err
		}
		if err := pushed(out, place+"/controller:"+version, image.Digest, func(to name.Reference) error { return pushIndex(to, index) }); err != nil {
			return err
		}
	}
	for _, c := range charts {
		if err := pushChart(out, filepath.Join(folder, chartsFolder), place, c); err != nil {
			return err
		}
	}
	return nil
}

func pushChart(out io.Writer, folder, place string, c v1.Descriptor) error {
	path, err := layout.FromPath(folder)
	if err != nil {
		return err
	}
	artefact, err := path.Image(c.Digest)
	if err != nil {
		return err
	}
	manifest, err := artefact.Manifest()
	if err != nil {
		return err
	}
	to := place + "/" + manifest.Annotations["org.opencontainers.image.title"] + ":" + manifest.Annotations["org.opencontainers.image.version"]
	return pushed(out, to, c.Digest, func(to name.Reference) error {
		return explained(to, remote.Write(to, artefact, remote.WithAuthFromKeychain(authn.DefaultKeychain)))
	})
}

// pushed pushes one artefact and says so.
func pushed(out io.Writer, to string, digest v1.Hash, push func(name.Reference) error) error {
	reference, err := name.ParseReference(to, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("push to %q: %w", to, err)
	}
	if err := push(reference); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "pushed %s@%s\n", to, digest)
	return err
}

// pushIndex pushes an index with all that it refers to.
func pushIndex(to name.Reference, index v1.ImageIndex) error {
	return explained(to, remote.WriteIndex(to, index, remote.WithAuthFromKeychain(authn.DefaultKeychain)))
}

// explained adds advice to a registry's refusal.
func explained(to name.Reference, err error) error {
	if err == nil {
		return nil
	}
	var answer *transport.Error
	if errors.As(err, &answer) {
		switch answer.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			return fmt.Errorf("push to %s: the registry refuses: log in with an account that may push there (docker login, crane auth login): %w", to, err)
		case http.StatusNotFound:
			return fmt.Errorf("push to %s: the registry does not know the repository: create it there first: %w", to, err)
		}
	}
	return fmt.Errorf("push to %s: %w", to, err)
}
