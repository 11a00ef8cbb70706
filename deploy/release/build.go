package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sigstore/sigstore/pkg/signature"
	"helm.sh/helm/v3/pkg/chart"
)

// The files of a release. A release that nobody has signed lacks the two that are named last.
const (
	imageFolder    = "image"  // an OCI layout with the image of all platforms of Linux
	chartsFolder   = "charts" // an OCI layout with the charts
	provenanceFile = "provenance.json"
	sumsFile       = "SHA256SUMS"
	signatureFile  = "SHA256SUMS.sig"
	envelopeFile   = "provenance.intoto.jsonl"
)

func readCloser(content []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(content)) }

// makeRelease makes a release in a folder beside output, and gives it that name at the end, so that output is always whole.
func makeRelease(ctx context.Context, in input, arguments []string, output, key string) (err error) {
	if in.binaries, err = parseBinaries(arguments); err != nil {
		return err
	}
	if in.created, err = sourceDate(); err != nil {
		return err
	}
	charts, signer, err := in.check(output, key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(output), ".release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	programs, folder := filepath.Join(work, "programs"), filepath.Join(work, "release")
	for _, f := range []string{programs, folder} {
		if err := os.Mkdir(f, 0o755); err != nil {
			return err
		}
	}
	if err := in.compileAll(ctx, programs); err != nil {
		return err
	}
	if err := in.fill(folder, charts); err != nil {
		return err
	}
	if signer == nil {
		fmt.Println("not signed, because no key was given (KEY=FILE)")
	} else if err := sign(folder, signer); err != nil {
		return err
	}
	if err := os.RemoveAll(output); err != nil {
		return err
	}
	if err := os.Rename(folder, output); err != nil {
		return err
	}
	fmt.Printf("%s holds release %s of commit %s\n", output, in.version, in.revision)
	return nil
}

// check finds all that would make the release fail after minutes of compiling.
func (in *input) check(output, key string) (charts []*chart.Chart, signer signature.Signer, err error) {
	switch {
	case in.version == "":
		return nil, nil, errors.New("a release needs a version: VERSION=1.2.3")
	case in.revision == "":
		return nil, nil, errors.New("a release needs the commit that it is built from, and this folder is no git repository")
	case strings.HasSuffix(in.revision, "-dirty"):
		return nil, nil, errors.New("the repository has changes that are not committed, so nobody could build the same release: commit or remove them")
	}
	if _, err := os.Stat(output); err == nil {
		if _, err := os.Stat(filepath.Join(output, sumsFile)); err != nil {
			return nil, nil, fmt.Errorf("%s is there and is no release, so it is not replaced: move it away", output)
		}
	}
	if charts, err = in.loadCharts(); err != nil {
		return nil, nil, err
	}
	changes, err := os.ReadFile(filepath.Join(in.source, "CHANGELOG.md"))
	if err != nil {
		return nil, nil, err
	}
	if !bytes.Contains(changes, []byte("\n## ["+in.version+"]")) {
		return nil, nil, fmt.Errorf("CHANGELOG.md has no section [%s]: describe the changes for users first", in.version)
	}
	if key != "" {
		signer, err = loadSigner(key)
	}
	return charts, signer, err
}

// fill writes all files but the signatures.
func (in *input) fill(folder string, charts []*chart.Chart) error {
	licence, err := os.ReadFile(filepath.Join(in.source, "LICENSE"))
	if err != nil {
		return err
	}
	goVersion := ""
	forImage := *in
	forImage.binaries = nil
	for _, b := range in.binaries {
		if goVersion, err = in.pack(folder, &b, licence); err != nil {
			return err
		}
		if b.platform.OS == "linux" {
			forImage.binaries = append(forImage.binaries, b)
		}
	}
	if len(forImage.binaries) > 0 {
		index, err := buildImage(forImage)
		if err != nil {
			return err
		}
		if err := write(index, forImage, filepath.Join(folder, imageFolder)); err != nil {
			return err
		}
	}
	if err := writeCharts(charts, in.created, folder); err != nil {
		return err
	}
	statement, err := in.provenance(folder, goVersion)
	if err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, provenanceFile), statement, 0o644); err != nil {
		return err
	}
	sums, err := sumsOf(folder)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, sumsFile), sums, 0o644)
}

// pack writes the archive of one program and its lists of contents. It returns the version of Go that compiled the program.
func (in *input) pack(folder string, b *binary, licence []byte) (goVersion string, err error) {
	if err := b.isFor(); err != nil {
		return "", err
	}
	content, err := os.ReadFile(b.file)
	if err != nil {
		return "", err
	}
	base := filepath.Join(folder, program+"-"+in.version+"-"+b.label())
	archive, err := tarGz([]entry{{programName(b.platform.OS), 0o755, content}, {"LICENSE", 0o644, licence}}, in.created)
	if err != nil {
		return "", err
	}
	c := contents{version: in.version, label: b.label(), hash: hashOf(content), created: in.created}
	if c.modules, goVersion, err = modulesOf(content); err != nil {
		return "", err
	}
	spdx, err := c.spdx()
	if err != nil {
		return "", err
	}
	cyclonedx, err := c.cyclonedx()
	if err != nil {
		return "", err
	}
	for ending, content := range map[string][]byte{".tar.gz": archive, ".spdx.json": spdx, ".cdx.json": cyclonedx} {
		if err := os.WriteFile(base+ending, content, 0o644); err != nil {
			return "", err
		}
	}
	return goVersion, nil
}

func programName(system string) string {
	if system == "windows" {
		return program + ".exe"
	}
	return program
}

func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// summed are the files that the checksums are about, by their paths with slashes, sorted.
func summed(folder string) (out []string, err error) {
	err = filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		if !entry.Type().IsRegular() {
			return fmt.Errorf("%s is no regular file", file)
		}
		if name = filepath.ToSlash(name); name != sumsFile && name != signatureFile && name != envelopeFile {
			out = append(out, name)
		}
		return nil
	})
	return out, err
}

// sumsOf makes the file that `sha256sum --check` reads.
func sumsOf(folder string) ([]byte, error) {
	names, err := summed(folder)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s  %s\n", hashOf(content), name)
	}
	return out.Bytes(), nil
}

// sign signs the checksums and the provenance.
func sign(folder string, signer signature.Signer) error {
	for from, to := range map[string]string{sumsFile: signatureFile, provenanceFile: envelopeFile} {
		content, err := os.ReadFile(filepath.Join(folder, from))
		if err != nil {
			return err
		}
		signed := signBlob
		if from == provenanceFile {
			signed = signStatement
		}
		text, err := signed(signer, content)
		if err != nil {
			return fmt.Errorf("sign %s: %w", from, err)
		}
		if err := os.WriteFile(filepath.Join(folder, to), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
