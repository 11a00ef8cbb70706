package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// apply applies every manifest in a folder or a file, in the order of file names.
func apply(ctx context.Context, c client.Client, files fs.FS, from string) error {
	return fs.WalkDir(files, from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		objects, err := readManifests(content)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		for _, object := range objects {
			err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("tenon-demo"), client.ForceOwnership)
			if err != nil {
				return fmt.Errorf("apply %s %s of %s: %w", object.GetKind(), object.GetName(), path, err)
			}
		}
		return nil
	})
}

// readManifests reads the documents of a YAML file.
func readManifests(content []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) > 0 { // otherwise the document has only comments
			objects = append(objects, object)
		}
	}
}
