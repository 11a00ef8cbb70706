package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	provenancev1 "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intotov1 "github.com/in-toto/attestation/go/v1"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	slsaProvenance = "https://slsa.dev/provenance/v1"
	buildType      = "https://tenon.sh/release/v1" // docs/guide/verify.md describes it
)

// provenance states which commit and which Go the files of a folder were made from, as an in-toto statement with SLSA's predicate.
func (in *input) provenance(folder, goVersion string) ([]byte, error) {
	var platforms []any
	for _, b := range in.binaries {
		platforms = append(platforms, b.platform.String())
	}
	external, err := structpb.NewStruct(map[string]any{"version": in.version, "platforms": platforms, "sourceDateEpoch": fmt.Sprint(in.created.Unix())})
	if err != nil {
		return nil, err
	}
	predicate := &provenancev1.Provenance{
		BuildDefinition: &provenancev1.BuildDefinition{
			BuildType:          buildType,
			ExternalParameters: external,
			ResolvedDependencies: []*intotov1.ResourceDescriptor{
				{Name: "tenon.sh", Digest: map[string]string{"gitCommit": in.revision}},
			},
		},
		RunDetails: &provenancev1.RunDetails{Builder: &provenancev1.Builder{Id: in.builder, Version: map[string]string{"go": goVersion}}},
	}
	if err := predicate.Validate(); err != nil {
		return nil, err
	}
	fields := &structpb.Struct{}
	if text, err := protojson.Marshal(predicate); err != nil {
		return nil, err
	} else if err := protojson.Unmarshal(text, fields); err != nil {
		return nil, err
	}
	subjects, err := subjectsOf(folder)
	if err != nil {
		return nil, err
	}
	statement := &intotov1.Statement{Type: intotov1.StatementTypeUri, Subject: subjects, PredicateType: slsaProvenance, Predicate: fields}
	if err := statement.Validate(); err != nil {
		return nil, err
	}
	return stable(statement)
}

// stable is JSON with sorted keys: protojson's own spaces differ from program to program, on purpose.
func stable(message proto.Message) ([]byte, error) {
	text, err := protojson.Marshal(message)
	if err != nil {
		return nil, err
	}
	var fields any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	text, err = json.MarshalIndent(fields, "", "  ")
	return append(text, '\n'), err
}

// subjectsOf lists all that a release gives its users: the files, and the image and the charts by the digests that a registry knows them by.
func subjectsOf(folder string) (out []*intotov1.ResourceDescriptor, err error) {
	add := func(name, hash string) {
		out = append(out, &intotov1.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": hash}})
	}
	names, err := summed(folder)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.Contains(name, "/") || name == provenanceFile {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		add(name, hashOf(content))
	}
	for _, part := range []string{imageFolder, chartsFolder} {
		artefacts, err := artefactsOf(filepath.Join(folder, part))
		if err != nil {
			return nil, err
		}
		for _, a := range artefacts {
			add(part+"/"+a.Annotations[refName], a.Digest.Hex)
		}
	}
	return out, nil
}

// artefactsOf lists what an OCI layout holds. A folder that is not there holds nothing, as the image of a release without Linux.
func artefactsOf(folder string) ([]v1.Descriptor, error) {
	if _, err := os.Stat(folder); os.IsNotExist(err) {
		return nil, nil
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, fmt.Errorf("read the OCI layout %s: %w", folder, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("read the OCI layout %s: %w", folder, err)
	}
	return manifest.Manifests, nil
}
