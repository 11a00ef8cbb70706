// Command mutate checks whether the tests notice faults in the code. It chooses random places in the product's sources, changes one operator,
// constant, statement or condition at each, and runs tests until one fails. It prints each change that no test notices. In that case a rule has
// no test, or the code makes no difference.
//
// The source files stay unchanged, because the go command gets the changed file by its flag -overlay.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	root := flag.String("root", "..", "the folder of the module to change")
	folders := flag.String("folders", "engine", "folders whose packages are changed, by comma; those below count too")
	seed := flag.Uint64("seed", 1, "what the draw begins with")
	count := flag.Int("count", 100, "how many changes to try")
	from := flag.Int("from", 0, "how many of them to leave out: those of an earlier run")
	then := flag.String("then", "", "packages whose tests run one after the other where those of the changed package notice nothing, by comma; +all after a name draws all inputs of its laws")
	timeout := flag.Duration("timeout", 6*time.Minute, "for how long one package's tests may run; longer counts as noticed")
	flag.Parse()

	var places []place
	for folder := range strings.SplitSeq(*folders, ",") {
		found, err := placesBelow(filepath.Join(*root, folder))
		if err != nil {
			return fmt.Errorf("reading the sources in %s: %w", folder, err)
		}
		places = append(places, found...)
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	random.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	fmt.Printf("%d places in %s, seed %d\n", len(places), *folders, *seed)

	tester := tester{root: *root, then: strings.Split(*then, ","), timeout: *timeout}
	var tried, noticed int
	for _, place := range places {
		if tried == *count {
			break
		}
		began := time.Now()
		result, err := tester.try(ctx, place, tried < *from)
		if err != nil {
			return fmt.Errorf("trying %s: %w", place, err)
		}
		if ctx.Err() != nil { // the interrupted tests failed for that reason
			break
		}
		if result == notCompiled {
			continue
		}
		if tried++; tried <= *from {
			continue
		}
		if result != unnoticed {
			noticed++
		}
		fmt.Printf("%3d %-70s %s (%.0f s)\n", tried, place, result, time.Since(began).Seconds())
	}
	fmt.Printf("%d of %d noticed\n", noticed, max(tried-*from, 0))
	return nil
}

const (
	// A change that does not compile is no realistic fault, and is not counted.
	notCompiled = "does not compile"
	unnoticed   = "UNNOTICED"
)

// A tester runs the tests of the module at root against changed sources.
type tester struct {
	root    string
	then    []string // packages as ./engine, ./engine/... or ./engine+all
	timeout time.Duration
}

// try returns the package whose tests notice the change. With compileOnly it only checks whether the change compiles.
func (t tester) try(ctx context.Context, place place, compileOnly bool) (string, error) {
	folder, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	changed, original := filepath.Join(folder, "changed.go"), place.file
	if original, err = filepath.Abs(original); err != nil {
		return "", err
	}
	source, err := place.changed()
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(changed, source, 0o600); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		return "", err
	}
	overlayFile := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		return "", err
	}

	relative, err := filepath.Rel(t.root, filepath.Dir(place.file))
	if err != nil {
		return "", err
	}
	own := "./" + relative
	if t.command(ctx, "", "build", "-overlay", overlayFile, own) != nil {
		return notCompiled, nil
	}
	if compileOnly {
		return unnoticed, nil
	}
	for _, tested := range append([]string{own}, t.then...) {
		name, all := strings.CutSuffix(tested, "+all")
		draws := ""
		if all {
			draws = "TENON_DRAWS=all"
		}
		if name != "" && t.command(ctx, draws, "test", "-failfast", "-timeout", t.timeout.String(), "-overlay", overlayFile, name) != nil {
			return "noticed by " + tested, nil
		}
	}
	return unnoticed, nil
}

func (t tester) command(ctx context.Context, environment string, arguments ...string) error {
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = t.root
	command.Env = append(os.Environ(), environment)
	return command.Run()
}
