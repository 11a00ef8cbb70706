package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	provenancev1 "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intotov1 "github.com/in-toto/attestation/go/v1"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	spdxjson "github.com/spdx/tools-golang/json"
	"google.golang.org/protobuf/encoding/protojson"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// verify checks a release from the outside in: the signature, the checksums that it covers, and then whether the files agree with each other.
// Without a key it checks no signature.
func verify(out io.Writer, folder, key string) error {
	checks := []struct {
		name  string
		check func(string) (string, error)
	}{
		{"signature", func(folder string) (string, error) { return checkSignatures(folder, key) }},
		{"checksums", countSums}, {"provenance", checkProvenance}, {"image", checkImage}, {"charts", checkCharts}, {"contents", checkContents},
	}
	if _, err := os.Stat(filepath.Join(folder, sumsFile)); err != nil {
		return fmt.Errorf("%s is no release: %w", folder, err)
	}
	for _, c := range checks {
		found, err := c.check(folder)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Fprintf(out, "%-10s  %s\n", c.name, found)
	}
	return nil
}

func checkSignatures(folder, key string) (string, error) {
	if key == "" {
		return "not checked: anybody can have made these files", nil
	}
	by, err := loadVerifier(key)
	if err != nil {
		return "", err
	}
	read := map[string][]byte{}
	for _, name := range []string{sumsFile, signatureFile, provenanceFile, envelopeFile} {
		if read[name], err = os.ReadFile(filepath.Join(folder, name)); errors.Is(err, os.ErrNotExist) && (name == signatureFile || name == envelopeFile) {
			return "", fmt.Errorf("%s is not there: nobody has signed this release, or the file was lost", name)
		} else if err != nil {
			return "", err
		}
	}
	if err := verifyBlob(by, read[sumsFile], read[signatureFile]); err != nil {
		return "", fmt.Errorf("%s was not signed with the private key of %s, or was changed afterwards: %w", sumsFile, key, err)
	}
	var statement []byte
	envelope := dsse.WrapVerifier(by, dsse.WithExpectedPayloadType(inToto), dsse.WithDecodedPayload(&statement))
	if err := envelope.VerifySignature(bytes.NewReader(read[envelopeFile]), nil); err != nil {
		return "", fmt.Errorf("%s was not signed with the private key of %s, or was changed afterwards: %w", envelopeFile, key, err)
	}
	if !bytes.Equal(statement, read[provenanceFile]) {
		return "", fmt.Errorf("%s and %s state different things", envelopeFile, provenanceFile)
	}
	return fmt.Sprintf("%s and %s are signed with the private key of %s", sumsFile, provenanceFile, key), nil
}

func countSums(folder string) (string, error) {
	names, err := summed(folder)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d files are as %s says", len(names), sumsFile), checkSums(folder)
}

// checkSums names all files that are changed, missing or new.
func checkSums(folder string) error {
	text, err := os.ReadFile(filepath.Join(folder, sumsFile))
	if err != nil {
		return fmt.Errorf("%s is no release: %w", folder, err)
	}
	names, err := summed(folder)
	if err != nil {
		return err
	}
	var problems []error
	listed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || !filepath.IsLocal(filepath.FromSlash(name)) || listed[name] {
			return fmt.Errorf("%s: %q is no line of checksums", sumsFile, line)
		}
		listed[name] = true
		switch content, err := os.ReadFile(filepath.Join(folder, name)); {
		case errors.Is(err, os.ErrNotExist):
			problems = append(problems, fmt.Errorf("%s is missing", name))
		case err != nil:
			problems = append(problems, err)
		case hashOf(content) != sum:
			problems = append(problems, fmt.Errorf("%s was changed: its SHA-256 is %s, and %s says %s", name, hashOf(content), sumsFile, sum))
		}
	}
	for _, name := range names {
		if !listed[name] {
			problems = append(problems, fmt.Errorf("%s does not belong to the release: %s does not list it", name, sumsFile))
		}
	}
	return errors.Join(problems...)
}

func checkProvenance(folder string) (string, error) {
	text, err := os.ReadFile(filepath.Join(folder, provenanceFile))
	if err != nil {
		return "", err
	}
	statement, predicate := &intotov1.Statement{}, &provenancev1.Provenance{}
	if err := protojson.Unmarshal(text, statement); err != nil {
		return "", fmt.Errorf("%s is no in-toto statement: %w", provenanceFile, err)
	}
	if statement.GetPredicateType() != slsaProvenance {
		return "", fmt.Errorf("%s has a predicate of type %s, want %s", provenanceFile, statement.GetPredicateType(), slsaProvenance)
	}
	if fields, err := protojson.Marshal(statement.GetPredicate()); err != nil {
		return "", err
	} else if err := protojson.Unmarshal(fields, predicate); err != nil {
		return "", fmt.Errorf("%s: %w", provenanceFile, err)
	}
	want, err := subjectsOf(folder)
	if err != nil {
		return "", err
	}
	plain := func(list []*intotov1.ResourceDescriptor) (out []string) {
		for _, s := range list {
			out = append(out, s.GetName()+" "+s.GetDigest()["sha256"])
		}
		return out
	}
	if got := plain(statement.GetSubject()); !slices.Equal(got, plain(want)) {
		return "", fmt.Errorf("%s is about other files than those of this folder", provenanceFile)
	}
	commit := ""
	for _, d := range predicate.GetBuildDefinition().GetResolvedDependencies() {
		commit = d.GetDigest()["gitCommit"]
	}
	return fmt.Sprintf("%d artefacts, built from commit %s with %s by %s", len(want), commit,
		predicate.GetRunDetails().GetBuilder().GetVersion()["go"], predicate.GetRunDetails().GetBuilder().GetId()), nil
}

func checkImage(folder string) (string, error) {
	images, err := artefactsOf(filepath.Join(folder, imageFolder))
	if err != nil {
		return "", err
	}
	if len(images) == 0 {
		return "none: the release has no platform of Linux", nil
	}
	index, err := layout.ImageIndexFromPath(filepath.Join(folder, imageFolder))
	if err != nil {
		return "", err
	}
	if index, err = index.ImageIndex(images[0].Digest); err != nil {
		return "", err
	}
	if err := validate.Index(index); err != nil {
		return "", err
	}
	list, err := index.IndexManifest()
	if err != nil {
		return "", err
	}
	var platforms []string
	for _, m := range list.Manifests {
		platforms = append(platforms, m.Platform.String())
	}
	return fmt.Sprintf("%s for %s", images[0].Digest, strings.Join(platforms, ", ")), nil
}

func checkCharts(folder string) (string, error) {
	artefacts, err := artefactsOf(filepath.Join(folder, chartsFolder))
	if err != nil {
		return "", err
	}
	path, err := layout.FromPath(filepath.Join(folder, chartsFolder))
	if err != nil {
		return "", err
	}
	var names []string
	for _, a := range artefacts {
		file := a.Annotations[refName] + ".tgz"
		content, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			return "", err
		}
		artefact, err := path.Image(a.Digest)
		if err != nil {
			return "", err
		}
		manifest, err := artefact.Manifest()
		if err != nil {
			return "", err
		}
		if len(manifest.Layers) != 1 || manifest.Layers[0].Digest.Hex != hashOf(content) {
			return "", fmt.Errorf("%s is not the chart in the OCI layout", file)
		}
		c, err := loader.LoadArchive(bytes.NewReader(content))
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		names = append(names, c.Name()+" "+c.Metadata.Version)
	}
	return strings.Join(names, ", ") + ": the same as files and in the OCI layout", nil
}

// checkContents compares the lists of contents with the build info of the programs.
func checkContents(folder string) (string, error) {
	archives, err := filepath.Glob(filepath.Join(folder, "*.tar.gz"))
	if err != nil {
		return "", err
	}
	for _, archive := range archives {
		content, err := programIn(archive)
		if err != nil {
			return "", fmt.Errorf("%s: %w", filepath.Base(archive), err)
		}
		modules, _, err := modulesOf(content)
		if err != nil {
			return "", fmt.Errorf("%s: %w", filepath.Base(archive), err)
		}
		var want []string
		for _, m := range modules {
			want = append(want, m.purl())
		}
		base := strings.TrimSuffix(archive, ".tar.gz")
		for file, read := range map[string]func([]byte) (hash string, purls []string, err error){base + ".spdx.json": readSPDX, base + ".cdx.json": readCycloneDX} {
			text, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			hash, got, err := read(text)
			if err != nil {
				return "", fmt.Errorf("%s: %w", filepath.Base(file), err)
			}
			if hash != hashOf(content) || !slices.Equal(got, want) {
				return "", fmt.Errorf("%s does not list the modules that the program in %s was linked from", filepath.Base(file), filepath.Base(archive))
			}
		}
	}
	return fmt.Sprintf("the SPDX and CycloneDX lists of %d programs match the programs", len(archives)), nil
}

// programIn is the first file of an archive.
func programIn(archive string) ([]byte, error) {
	file, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	entries := tar.NewReader(plain)
	if _, err := entries.Next(); err != nil {
		return nil, err
	}
	return io.ReadAll(entries)
}

// readSPDX returns the program's SHA-256, and the modules below it.
func readSPDX(text []byte) (hash string, purls []string, err error) {
	document, err := spdxjson.Read(bytes.NewReader(text))
	if err != nil {
		return "", nil, err
	}
	for i, p := range document.Packages {
		if i == 0 && len(p.PackageChecksums) == 1 {
			hash = p.PackageChecksums[0].Value
		}
		for _, r := range p.PackageExternalReferences {
			if i > 0 {
				purls = append(purls, r.Locator)
			}
		}
	}
	return hash, purls, nil
}

func readCycloneDX(text []byte) (hash string, purls []string, err error) {
	bom := &cyclonedx.BOM{}
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(bom); err != nil {
		return "", nil, err
	}
	if bom.Metadata == nil || bom.Metadata.Component == nil || bom.Metadata.Component.Hashes == nil || bom.Components == nil {
		return "", nil, errors.New("it is about no program")
	}
	for _, h := range *bom.Metadata.Component.Hashes {
		hash = h.Value
	}
	for _, c := range *bom.Components {
		purls = append(purls, c.PackageURL)
	}
	return hash, purls, nil
}
