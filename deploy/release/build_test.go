package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
)

const (
	version  = "0.1.0" // of the charts in the small repository
	revision = "0123456789abcdef0123456789abcdef01234567"
)

// shared is a folder for files that tests share, until all have ended.
var shared = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "release-test-") })

func TestMain(m *testing.M) {
	folder, err := shared()
	if err != nil {
		log.Fatal(err)
	}
	status := m.Run()
	if err := os.RemoveAll(folder); err != nil {
		log.Print(err)
	}
	os.Exit(status)
}

// released is a signed release of the small repository, made once for all tests, and the key pair.
var released = sync.OnceValues(func() (out struct{ folder, private, public string }, err error) {
	folder, err := shared()
	if err != nil {
		return out, err
	}
	out.folder, out.private, out.public = filepath.Join(folder, "release"), filepath.Join(folder, "key.pem"), filepath.Join(folder, "key.pub")
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return out, err
	}
	if err := writeKeys(key, out.private, out.public); err != nil {
		return out, err
	}
	source := filepath.Join(folder, "source")
	if err := writeRepository(source); err != nil {
		return out, err
	}
	return out, makeRelease(context.Background(), smallInput(source), platforms(), out.folder, out.private)
})

// platforms are this machine's, and two whose programs have other formats or names.
func platforms() []string {
	return []string{"linux/" + runtime.GOARCH, "linux/" + map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH], "windows/amd64"}
}

func smallInput(source string) input {
	return input{source: source, name: "tenon.sh/controller", version: version, revision: revision, builder: "https://tenon.sh/release/test"}
}

func writeKeys(key crypto.Signer, private, public string) error {
	text, err := cryptoutils.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(private, text, 0o600); err != nil {
		return err
	}
	if text, err = cryptoutils.MarshalPublicKeyToPEM(key.Public()); err != nil {
		return err
	}
	return os.WriteFile(public, text, 0o600)
}

// writeRepository writes a repository with a program of a few lines, which links one other module, and with our charts.
func writeRepository(folder string) error {
	own, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		return err
	}
	files := map[string]string{
		"go.mod":       "module tenon.sh\n\ngo 1.26.0\n\nrequire " + regexp.MustCompile(`golang.org/x/sync v\S+`).FindString(string(own)) + "\n",
		"go.sum":       string(sums),
		"main.go":      "package main\n\nimport (\n\t\"golang.org/x/sync/singleflight\"\n\n\t\"tenon.sh/cli\"\n)\n\nvar g singleflight.Group\n\nfunc main() {\n\tg.Forget(\"\")\n\tcli.Print()\n}\n",
		"cli/cli.go":   "package cli\n\nvar version, revision string\n\nfunc Print() { println(version, revision) }\n",
		"LICENSE":      "A licence.\n",
		"CHANGELOG.md": "# Changes\n\n## [Unreleased]\n\n## [" + version + "]\n",
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	charts := filepath.Join(folder, "deploy", "charts")
	if err := os.CopyFS(charts, os.DirFS("../charts")); err != nil {
		return err
	}
	for _, name := range chartNames { // the version of the release that is made next is not that of these tests
		file := filepath.Join(charts, name, "Chart.yaml")
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text = regexp.MustCompile(`(?m)^(version|appVersion): .*$`).ReplaceAll(text, []byte("$1: "+version))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// repository is a small repository of a test's own.
func repository(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "source")
	if err := writeRepository(folder); err != nil {
		t.Fatal(err)
	}
	return folder
}

func newKeys(t *testing.T, key crypto.Signer) (private, public string) {
	t.Helper()
	folder := t.TempDir()
	private, public = filepath.Join(folder, "key.pem"), filepath.Join(folder, "key.pub")
	if err := writeKeys(key, private, public); err != nil {
		t.Fatal(err)
	}
	return private, public
}

func filesOf(t *testing.T, folder string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		name, _ := filepath.Rel(folder, file)
		out[filepath.ToSlash(name)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAReleaseHoldsAProgramForEachPlatformWithItsContents(t *testing.T) {
	t.Parallel()
	r := must(released())(t)
	files := filesOf(t, r.folder)
	want := []string{"SHA256SUMS", "SHA256SUMS.sig", "provenance.json", "provenance.intoto.jsonl", "karpenter-0.1.0.tgz", "karpenter-crd-0.1.0.tgz", "image/index.json", "charts/index.json"}
	for _, p := range platforms() {
		for _, ending := range []string{".tar.gz", ".spdx.json", ".cdx.json"} {
			want = append(want, "tenon-0.1.0-"+strings.ReplaceAll(p, "/", "-")+ending)
		}
	}
	for _, name := range want {
		if files[name] == "" {
			t.Errorf("there is no %s", name)
		}
		delete(files, name)
	}
	for name := range files {
		if !strings.Contains(name, "/") {
			t.Errorf("nobody expects %s", name)
		}
	}
}

func TestTheProgramOfAReleaseSaysWhichItIs(t *testing.T) {
	t.Parallel()
	r, folder := must(released())(t), t.TempDir()
	archive := filepath.Join(r.folder, "tenon-0.1.0-linux-"+runtime.GOARCH+".tar.gz")
	if output, err := exec.Command("tar", "-xzf", archive, "-C", folder).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, output)
	}
	output, err := exec.Command(filepath.Join(folder, "tenon")).CombinedOutput()
	if err != nil || string(output) != version+" "+revision+"\n" {
		t.Errorf("%v: %q", err, output)
	}
}

// The commands of the guide accept our signatures and checksums, with tools that are not ours.
func TestTheCommandsOfTheGuideVerifyARelease(t *testing.T) {
	t.Parallel()
	r := must(released())(t)
	private, public := newKeys(t, must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t))
	other := filepath.Join(t.TempDir(), "release")
	if err := makeRelease(t.Context(), smallInput(repository(t)), platforms()[:1], other, private); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"sha256sum", "base64", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil && os.Getenv("CI") == "" {
			t.Skipf("%s is not installed", tool)
		}
	}
	for _, c := range []struct{ folder, key, with string }{
		{r.folder, r.public, "openssl pkeyutl"}, {other, public, "openssl dgst"}, {r.folder, r.public, "sha256sum"}, {other, public, "sha256sum"},
	} {
		script := guideBlock(t, c.with)
		script = strings.NewReplacer("tenon.pub", c.key, "/tmp/sig", filepath.Join(t.TempDir(), "sig")).Replace(script)
		command := exec.Command("sh", "-ec", script)
		command.Dir = c.folder
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, output)
		}
	}
}

// guideBlock is the block of the guide with a command.
func guideBlock(t *testing.T, command string) string {
	t.Helper()
	guide := must(os.ReadFile("../../docs/guide/verify.md"))(t)
	for _, match := range regexp.MustCompile("(?ms)^```\n(.*?)^```$").FindAllStringSubmatch(string(guide), -1) {
		if strings.Contains(match[1], command) {
			return match[1]
		}
	}
	t.Fatalf("no block of the guide has %s", command)
	return ""
}

// Every file of a release is in the table of the guide, with words for its variable parts.
func TestTheGuideListsTheFilesOfARelease(t *testing.T) {
	t.Parallel()
	guide := string(must(os.ReadFile("../../docs/guide/verify.md"))(t))
	names := strings.NewReplacer(version, "VERSION", "windows-amd64", "SYSTEM-MACHINE")
	for name := range filesOf(t, must(released())(t).folder) {
		folder, _, nested := strings.Cut(name, "/")
		if nested {
			name = folder + "/"
		}
		if name = names.Replace(name); strings.Contains(name, "linux") || strings.HasSuffix(name, "MACHINE.spdx.json") || strings.HasSuffix(name, "MACHINE.cdx.json") {
			continue
		}
		if !strings.Contains(guide, "`"+name+"`") {
			t.Errorf("the guide does not name %s", name)
		}
	}
}

func TestTheSameCommitMakesTheSameRelease(t *testing.T) {
	t.Parallel()
	var folders []string
	for _, name := range []string{"one", "another-with-a-longer-name"} {
		folder := filepath.Join(t.TempDir(), name)
		if err := makeRelease(t.Context(), smallInput(repository(t)), platforms(), folder, ""); err != nil {
			t.Fatal(err)
		}
		folders = append(folders, folder)
	}
	first, second := filesOf(t, folders[0]), filesOf(t, folders[1])
	if len(first) < 20 || len(first) != len(second) {
		t.Errorf("%d and %d files", len(first), len(second))
	}
	for name, content := range first {
		if second[name] != content {
			t.Errorf("%s is another", name)
		}
	}
}

func TestAReleaseThatCannotBeMadeLeavesTheOldOne(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "text")
	rsaKey, _ := newKeys(t, must(rsa.GenerateKey(rand.Reader, 2048))(t))
	if err := os.WriteFile(text, []byte("a text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change    func(in *input)
		platforms []string
		key, want string
	}{
		"a key that is no key":          {nil, nil, text, "text is no private key in PEM"},
		"a key that is not there":       {nil, nil, text + "-none", "read the private key: open"},
		"a key of another type":         {nil, nil, rsaKey, "want ed25519 or ECDSA"},
		"a version that is none":        {func(in *input) { in.version = "abc" }, nil, "", "release abc: this is no semantic version"},
		"another version than charts'":  {func(in *input) { in.version = "0.2.0" }, nil, "", "has version 0.1.0 and appVersion 0.1.0; set both to 0.2.0"},
		"a v before the version":        {func(in *input) { in.version = "v0.1.0" }, nil, "", "or release 0.1.0"},
		"no version":                    {func(in *input) { in.version = "" }, nil, "", "VERSION=1.2.3"},
		"no commit":                     {func(in *input) { in.revision = "" }, nil, "", "no git repository"},
		"changes that nobody committed": {func(in *input) { in.revision += "-dirty" }, nil, "", "not committed"},
		"no section of changes":         {func(in *input) { write1(t, in.source, "CHANGELOG.md", "# Changes\n") }, nil, "", "CHANGELOG.md has no section [0.1.0]"},
		"a program with a mistake":      {func(in *input) { write1(t, in.source, "main.go", "package main\n\nfunc main() { none() }\n") }, nil, "", "undefined: none"},
		"a chart that is none":          {func(in *input) { write1(t, in.source, "deploy/charts/karpenter/Chart.yaml", "a: [\n") }, nil, "", "chart karpenter:"},
		"no platform":                   {nil, []string{}, "", "want at least one platform"},
		"a platform that is none":       {nil, []string{"linux"}, "", `"linux" is not a platform`},
		"a platform twice":              {nil, []string{"linux/amd64", "linux/amd64"}, "", "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := smallInput(repository(t))
			if c.change != nil {
				c.change(&in)
			}
			if c.platforms == nil {
				c.platforms = platforms()[:1]
			}
			output := filepath.Join(t.TempDir(), "bin", "release")
			write1(t, output, sumsFile, "the old one\n")
			err := makeRelease(t.Context(), in, c.platforms, output, c.key)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if entries := must(os.ReadDir(filepath.Dir(output)))(t); len(entries) != 1 {
				t.Errorf("%v was left", entries)
			}
			if files := filesOf(t, output); len(files) != 1 || files[sumsFile] != "the old one\n" {
				t.Errorf("the old release is %v", files)
			}
		})
	}
}

func TestAProgramOfAnotherPlatformIsRefused(t *testing.T) {
	t.Parallel()
	in := smallInput(repository(t))
	tool := must(parseBinaries(platforms()[:1]))(t)[0]
	tool.file = filepath.Join(t.TempDir(), "tool")
	if err := in.compile(t.Context(), &tool); err != nil {
		t.Fatal(err)
	}
	err := makeRelease(t.Context(), in, []string{"darwin/arm64=" + tool.file}, filepath.Join(t.TempDir(), "release"), "")
	if err == nil || !strings.Contains(err.Error(), "is for linux/"+runtime.GOARCH+", not for darwin/arm64") {
		t.Error(err)
	}
}

// write1 writes one file below a folder.
func write1(t *testing.T, folder, name, text string) {
	t.Helper()
	file := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAReleaseThatIsInterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	output := filepath.Join(t.TempDir(), "bin", "release")
	if err := makeRelease(ctx, smallInput(repository(t)), platforms(), output, ""); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if entries := must(os.ReadDir(filepath.Dir(output)))(t); len(entries) > 0 {
		t.Errorf("%v was left", entries)
	}
}

func TestAFolderThatIsNoReleaseIsNotReplaced(t *testing.T) {
	t.Parallel()
	output := t.TempDir()
	write1(t, output, "precious", "text")
	err := makeRelease(t.Context(), smallInput(repository(t)), platforms()[:1], output, "")
	if err == nil || !strings.Contains(err.Error(), "is there and is no release, so it is not replaced") {
		t.Error(err)
	}
	if filesOf(t, output)["precious"] == "" {
		t.Error("it is gone")
	}
}

func TestAReleaseReplacesTheOneBefore(t *testing.T) {
	t.Parallel()
	output := filepath.Join(t.TempDir(), "release")
	write1(t, output, sumsFile, "the old one\n")
	write1(t, output, "old", "")
	if err := makeRelease(t.Context(), smallInput(repository(t)), platforms()[:1], output, ""); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := verify(&out, output, ""); err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "signature   not checked: anybody can have made these files\n") {
		t.Errorf("%s", &out)
	}
}

func TestAKeyOfCosignSigns(t *testing.T) {
	pair := func(password string) (private, public string) {
		key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
		encrypted := must(cryptoutils.MarshalPrivateKeyToEncryptedDER(key, func(bool) ([]byte, error) { return []byte(password), nil }))(t)
		private, public = newKeys(t, key)
		text := cryptoutils.PEMEncode(cryptoutils.EncryptedSigstorePrivateKeyPEMType, encrypted)
		if err := os.WriteFile(private, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return private, public
	}
	private, public := pair("secret")
	if _, err := loadSigner(private); err == nil || !strings.Contains(err.Error(), "COSIGN_PASSWORD is not set") {
		t.Error(err)
	}
	t.Setenv("COSIGN_PASSWORD", "secret")
	signer := must(loadSigner(private))(t)
	verifier := must(loadVerifier(public))(t)
	text := must(signBlob(signer, []byte("content")))(t)
	if err := verifyBlob(verifier, []byte("content"), text); err != nil {
		t.Error(err)
	}
	if err := verifyBlob(verifier, []byte("contents"), text); err == nil {
		t.Error("another content has the same signature")
	}
}

func TestTheTimeIsThatOfTheSource(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	output := filepath.Join(t.TempDir(), "release")
	if err := makeRelease(t.Context(), smallInput(repository(t)), platforms()[:1], output, ""); err != nil {
		t.Fatal(err)
	}
	files := filesOf(t, output)
	label := "tenon-0.1.0-linux-" + runtime.GOARCH
	at := time.Unix(1700000000, 0).UTC().Format(time.RFC3339)
	for _, name := range []string{label + ".spdx.json", label + ".cdx.json"} {
		if !strings.Contains(files[name], at) {
			t.Errorf("%s does not name %s", name, at)
		}
	}
	for _, name := range []string{label + ".tar.gz", "karpenter-0.1.0.tgz"} {
		entries := tar.NewReader(must(gzip.NewReader(strings.NewReader(files[name])))(t))
		count := 0
		for header, err := entries.Next(); err != io.EOF; header, err = entries.Next() {
			if err != nil {
				t.Fatal(err)
			}
			if count++; header.ModTime.Unix() != 1700000000 {
				t.Errorf("%s in %s is of %s", header.Name, name, header.ModTime)
			}
		}
		if count < 2 {
			t.Errorf("%s holds %d files", name, count)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "now")
	if err := makeRelease(t.Context(), smallInput(repository(t)), platforms()[:1], output, ""); err == nil || !strings.Contains(err.Error(), "want seconds since 1970") {
		t.Error(err)
	}
}

func TestModulesAreNamedAsScannersKnowThem(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]module{
		"pkg:golang/k8s.io/client-go@v0.36.3":             {"k8s.io/client-go", "v0.36.3"},
		"pkg:golang/github.com/azure/go-autorest@v14.2.0": {"github.com/Azure/go-autorest", "v14.2.0"},
		"pkg:golang/github.com/a/b@v1.0.0%2Bincompatible": {"github.com/a/b", "v1.0.0+incompatible"},
		"pkg:golang/stdlib@1.26.8":                        {"stdlib", "1.26.8"},
	} {
		if got := m.purl(); got != want {
			t.Errorf("%v is %s, want %s", m, got, want)
		}
	}
	modules, goVersion, err := modulesOf(must(programIn(filepath.Join(must(released())(t).folder, "tenon-0.1.0-windows-amd64.tar.gz")))(t))
	if err != nil || goVersion != runtime.Version() {
		t.Fatal(goVersion, err)
	}
	var paths []string
	for _, m := range modules {
		paths = append(paths, m.path)
	}
	if !slices.Equal(paths, []string{"golang.org/x/sync", "stdlib"}) || modules[0].version == "" {
		t.Errorf("%v", modules)
	}
}
