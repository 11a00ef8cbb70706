package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

func TestAReleaseIsVerified(t *testing.T) {
	t.Parallel()
	r := must(released())(t)
	var out bytes.Buffer
	if err := verify(&out, r.folder, r.public); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`(?m)^signature   SHA256SUMS and provenance\.json are signed with the private key of `,
		`(?m)^checksums   \d+ files are as SHA256SUMS says$`,
		`(?m)^provenance  14 artefacts, built from commit ` + revision + ` with ` + regexp.QuoteMeta(runtime.Version()) + ` by https://tenon\.sh/release/test$`,
		`(?m)^image       sha256:[0-9a-f]{64} for linux/\w+, linux/\w+$`,
		`(?m)^charts      karpenter-crd 0\.1\.0, karpenter 0\.1\.0: `,
		`(?m)^contents    the SPDX and CycloneDX lists of 3 programs match the programs$`,
	} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("no line is as %s in\n%s", want, &out)
		}
	}
}

// copied is a release that a test may change.
func copied(t *testing.T) (folder, public string) {
	t.Helper()
	r := must(released())(t)
	folder = filepath.Join(t.TempDir(), "release")
	if err := os.CopyFS(folder, os.DirFS(r.folder)); err != nil {
		t.Fatal(err)
	}
	return folder, r.public
}

func change(t *testing.T, folder, name string, by func(string) string) {
	t.Helper()
	text := string(must(os.ReadFile(filepath.Join(folder, name)))(t))
	changed := by(text)
	if changed == text {
		t.Fatalf("%s was not changed", name)
	}
	write1(t, folder, name, changed)
}

func replaced(old, by string) func(string) string {
	return func(text string) string { return strings.Replace(text, old, by, 1) }
}

func appended(text string) string { return text + "x" }

// summedAgain makes the checksums fit changed files, as a careful attacker would. Only the signature does not fit then.
func summedAgain(t *testing.T, folder string) {
	t.Helper()
	write1(t, folder, sumsFile, string(must(sumsOf(folder))(t)))
}

func TestAChangedReleaseIsRefused(t *testing.T) {
	t.Parallel()
	archive := "tenon-0.1.0-linux-" + runtime.GOARCH + ".tar.gz"
	for name, c := range map[string]struct {
		change   func(folder string)
		unsigned bool
		want     string
	}{
		"a changed program":                 {func(f string) { change(t, f, archive, appended) }, false, "checksums: " + archive + " was changed: its SHA-256 is "},
		"a missing file":                    {func(f string) { remove(t, f, "karpenter-0.1.0.tgz") }, false, "checksums: karpenter-0.1.0.tgz is missing"},
		"a file more":                       {func(f string) { write1(t, f, "more", "") }, false, "checksums: more does not belong to the release"},
		"checksums that fit the change":     {func(f string) { change(t, f, archive, appended); summedAgain(t, f) }, false, "signature: SHA256SUMS was not signed with the private key of "},
		"no checksums":                      {func(f string) { remove(t, f, sumsFile) }, false, "is no release"},
		"no signature":                      {func(f string) { remove(t, f, signatureFile) }, false, "signature: SHA256SUMS.sig is not there: nobody has signed this release"},
		"no envelope":                       {func(f string) { remove(t, f, envelopeFile) }, false, "signature: provenance.intoto.jsonl is not there"},
		"a signature that is none":          {func(f string) { write1(t, f, signatureFile, "!\n") }, false, "the signature is not base64"},
		"an envelope that is none":          {func(f string) { write1(t, f, envelopeFile, "{}") }, false, "signature: provenance.intoto.jsonl was not signed"},
		"another statement in the envelope": {func(f string) { change(t, f, envelopeFile, otherPayload) }, false, "signature: provenance.intoto.jsonl was not signed"},
		"another statement beside it":       {func(f string) { change(t, f, provenanceFile, replaced(revision, "1"+revision[1:])) }, false, "state different things"},
		"a line of checksums that leaves":   {func(f string) { change(t, f, sumsFile, func(s string) string { return s + "00  ../../file\n" }) }, true, "is no line of checksums"},
		"provenance of other files": {func(f string) {
			change(t, f, archive, appended)
			summedAgain(t, f)
		}, true, "provenance: provenance.json is about other files"},
		"contents of another program": {func(f string) {
			change(t, f, strings.Replace(archive, ".tar.gz", ".cdx.json", 1), replaced(`"purl": "pkg:golang/golang.org/x/sync@`, `"purl": "pkg:golang/golang.org/x/sync@v9`))
			statedAgain(t, f)
		}, true, "contents: tenon-0.1.0-linux-" + runtime.GOARCH + ".cdx.json does not list the modules"},
		"SPDX of another program": {func(f string) {
			change(t, f, strings.Replace(archive, ".tar.gz", ".spdx.json", 1), replaced("pkg:golang/golang.org/x/sync@", "pkg:golang/golang.org/x/sync@v9"))
			statedAgain(t, f)
		}, true, "contents: tenon-0.1.0-linux-" + runtime.GOARCH + ".spdx.json does not list the modules"},
		"a chart that differs from the artefact": {func(f string) {
			change(t, f, "karpenter-0.1.0.tgz", func(string) string { return string(must(os.ReadFile(filepath.Join(f, "karpenter-crd-0.1.0.tgz")))(t)) })
			statedAgain(t, f)
		}, true, "charts: karpenter-0.1.0.tgz is not the chart in the OCI layout"},
		"an image with a layer that is cut": {func(f string) {
			blobs := must(filepath.Glob(filepath.Join(f, "image/blobs/sha256/*")))(t)
			for _, b := range blobs {
				change(t, filepath.Dir(b), filepath.Base(b), func(s string) string { return strings.Replace(s, "\x1f\x8b", "\x1f\x8c", 1) + " " })
			}
			statedAgain(t, f)
		}, true, "image: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder, public := copied(t)
			c.change(folder)
			if c.unsigned {
				public = ""
			}
			var out bytes.Buffer
			if err := verify(&out, folder, public); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q\n%s", err, c.want, &out)
			}
		})
	}
}

func remove(t *testing.T, folder, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(folder, name)); err != nil {
		t.Fatal(err)
	}
}

// statedAgain writes provenance and checksums that fit a changed release.
func statedAgain(t *testing.T, folder string) {
	t.Helper()
	in := smallInput("")
	write1(t, folder, provenanceFile, string(must(in.provenance(folder, runtime.Version()))(t)))
	summedAgain(t, folder)
}

// otherPayload changes the statement in an envelope and keeps the signature.
func otherPayload(text string) string {
	var envelope map[string]any
	if err := json.Unmarshal([]byte(text), &envelope); err != nil {
		return text
	}
	payload, err := base64.StdEncoding.DecodeString(envelope["payload"].(string))
	if err != nil {
		return text
	}
	envelope["payload"] = base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(string(payload), revision, "1"+revision[1:])))
	out, err := json.Marshal(envelope)
	if err != nil {
		return text
	}
	return string(out)
}

func TestAKeyThatCannotVerifyIsNamed(t *testing.T) {
	t.Parallel()
	r := must(released())(t)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, other := newKeys(t, key)
	text := filepath.Join(t.TempDir(), "text")
	write1(t, filepath.Dir(text), "text", "no key\n")
	for key, want := range map[string]string{
		other:          "SHA256SUMS was not signed with the private key of " + other + ", or was changed afterwards",
		private:        "is no public key in PEM",
		text:           "text is no public key in PEM",
		text + "-none": "read the public key: open",
	} {
		if err := verify(&bytes.Buffer{}, r.folder, key); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
}

func TestTheCommandLineSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	folder := must(released())(t).folder
	for line, want := range map[string]string{
		"":                                  "usage: release image|build|verify|push",
		"pack":                              `there is no command "pack"`,
		"verify " + folder:                  "needs either -key, with the public key that you trust, or -unsigned",
		"verify -unsigned -key k " + folder: "needs either -key",
		"verify -unsigned":                  "verify needs one folder",
		"verify -unsigned /none":            "/none is no release",
		"push " + folder:                    "push needs a folder and a place",
	} {
		if err := run(t.Context(), strings.Fields(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
	if err := run(t.Context(), []string{"verify", "-unsigned", folder}); err != nil {
		t.Error(err)
	}
}
