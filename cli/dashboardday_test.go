package cli

import (
	"bufio"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

const recordedHours = `namespace,pod,owner,arrival,departure,cpu,memory
shop,web-1,ReplicaSet/web,2026-03-02T00:00:00Z,,500m,1Gi
shop,web-2,ReplicaSet/web,2026-03-02T00:00:00Z,,500m,1Gi
shop,web-3,ReplicaSet/web,2026-03-02T00:30:00Z,2026-03-02T02:30:00Z,500m,1Gi
shop,report-1,Job/report,2026-03-02T01:00:00Z,2026-03-02T01:20:00Z,3,8Gi
shop,web-4,ReplicaSet/web,2026-03-02T03:00:00Z,,500m,1Gi
`

// longestWait is how long a test waits for what takes a second.
const longestWait = 5 * time.Minute

// traceFile writes a trace.
func traceFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "day.csv")
	must(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// dayPage is the page of a file, on which changes are compared over a trace in processes with a limit of memory.
func dayPage(t *testing.T, file, traceName, memory string) (http.Handler, *recordedDay) {
	t.Helper()
	day, err := readDay(traceName, memory, "")
	must(t, err)
	o := dashboardOptions{planOptions: planOptions{engineFlags: defaultEngineFlags(), files: []string{file}}, day: day}
	return handlerOf(t, o.source(newDashboard().Flags(), strings.NewReader(""), newTerminal(&strings.Builder{}))), day
}

func postForm(handler http.Handler, address, text string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://localhost"+address, strings.NewReader(url.Values{"text": {text}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// compareOver begins a comparison and waits for its end.
func compareOver(t *testing.T, handler http.Handler, text string) string {
	t.Helper()
	if w := postForm(handler, "/whatif/day", text); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/whatif?from=compared#day" {
		t.Fatalf("%d %s: %s", w.Code, w.Header().Get("Location"), pageWords(w.Body.String()))
	}
	return awaitComparison(t, handler)
}

// awaitComparison asks for the page until no comparison is running.
func awaitComparison(t *testing.T, handler http.Handler) string {
	t.Helper()
	for began := time.Now(); time.Since(began) < longestWait; {
		if _, page := pageAt(t, handler, "/whatif?from=compared"); !strings.Contains(page, "<progress") {
			return page
		}
	}
	t.Fatal("it does not end")
	return ""
}

// What the page says of a day is what tenon simulate says: its document byte for byte, its picture, and the words of its tables.
func TestADayOnThePageIsWhatSimulateSays(t *testing.T) {
	t.Parallel()
	file, traceName := snapshotFile(t, whatIfCluster), traceFile(t, recordedHours)
	handler, _ := dayPage(t, file, traceName, "1Gi")
	change := strings.Replace(manifestAt(t, handler, "NodePool/general"), "requirements: []", "requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [l]}]", 1)
	page := compareOver(t, handler, change)

	folder := t.TempDir()
	changed, picture := filepath.Join(folder, "changed.yaml"), filepath.Join(folder, "day.svg")
	must(t, os.WriteFile(changed, []byte(change), 0o600))
	args := []string{"simulate", "-f", file, "--empty", "--trace", traceName, "--change", changed, "--picture", picture}
	document, _, err := run(t, append(args, "-o", "json")...)
	must(t, err)
	if code, got := pageAt(t, handler, "/json/day"); code != 200 || got != document || !strings.Contains(got, `"setting": "changed"`) {
		t.Errorf("%d, not what tenon simulate prints:\n%s\nwant\n%s", code, got, document)
	}
	drawn, err := os.ReadFile(picture)
	must(t, err)
	if code, got := pageAt(t, handler, "/whatif/day.svg"); code != 200 || got != string(drawn) {
		t.Errorf("%d, not the picture of tenon simulate:\n%s", code, got)
	}
	text, _, err := run(t, args...)
	must(t, err)
	_, text, _ = strings.Cut(text, "\nSETTING")
	words := pageWords(page)
	for word := range strings.FieldsSeq(strings.ToLower("SETTING" + text)) {
		i := strings.Index(words, strings.TrimSuffix(word, ":"))
		if i < 0 {
			t.Fatalf("the page does not say %q, which tenon simulate does, at its place: %s", word, pageWords(page))
		}
		words = words[i:]
	}
	for _, want := range []string{"over 0.125 days these pods cost $", "the bound, below which", "pods that wait cost nothing:", "values: [l]", "--empty --change changed.yaml --trace day.csv"} {
		if !strings.Contains(pageWords(page), want) {
			t.Errorf("the page does not say %q: %s", want, pageWords(page))
		}
	}
}

// What makes no comparison is said at once, with line and field, and nothing is started.
func TestADayIsNotComparedWithMistakes(t *testing.T) {
	t.Parallel()
	handler, _ := dayPage(t, snapshotFile(t, whatIfCluster), traceFile(t, recordedHours), "1Gi")
	pool := manifestAt(t, handler, "NodePool/general")
	for text, want := range map[string]string{
		strings.Replace(pool, "limits:", "limit:", 1):              `unknown field "spec.limit": did you mean spec.limits?`,
		manifestAt(t, handler, "Deployment/shop/late"):             "deployment shop/late would change nothing: the pods are those of the recorded day",
		"kind: Secret\napiVersion: v1\nmetadata: {name: <b>x</b>}": "secret of v1 cannot be tried here",
	} {
		w := postForm(handler, "/whatif/day", text)
		if page := strings.Join(strings.Fields(pageWords(w.Body.String())), " "); w.Code != 200 || !strings.Contains(page, want) || !strings.Contains(page, "1 mistake. nothing was planned") || strings.Contains(w.Body.String(), "<progress") {
			t.Errorf("%d without %q: %s", w.Code, want, page)
		}
	}
	_, page := pageAt(t, handler, "/whatif")
	if !strings.Contains(page, "day.csv: 5 pods from 2026-03-02 00:00:00 UTC to 2026-03-02 03:00:00 UTC") || strings.Contains(page, "<progress") {
		t.Error("the day is not named, or something runs")
	}
	if _, page := pageAt(t, pageOf(t, snapshotFile(t, whatIfCluster)), "/whatif"); !strings.Contains(page, "tenon dashboard --trace yesterday.csv") || strings.Contains(page, "formaction") {
		t.Error("a page without a day does not say how to get one")
	}
}

// A comparison that takes more memory than it may is ended and says so; the page goes on.
func TestADayThatTakesTooMuchMemorySaysSo(t *testing.T) {
	t.Parallel()
	handler, _ := dayPage(t, snapshotFile(t, whatIfCluster), traceFile(t, manyRecorded(200_000)), "64Mi")
	page := compareOver(t, handler, manifestAt(t, handler, "NodePool/general"))
	if !strings.Contains(page, "It took more than 64Mi of memory, and was ended") {
		t.Errorf("%s", pageWords(page))
	}
	if code, _ := pageAt(t, handler, "/json/plan"); code != 200 {
		t.Errorf("the page afterwards: %d", code)
	}
}

// A trace that has gone since is said by its name: where it was is not for the page.
func TestADayDoesNotSayWhereItsTraceIs(t *testing.T) {
	t.Parallel()
	traceName := traceFile(t, recordedHours)
	handler, _ := dayPage(t, snapshotFile(t, whatIfCluster), traceName, "1Gi")
	must(t, os.Remove(traceName))
	page := compareOver(t, handler, manifestAt(t, handler, "NodePool/general"))
	if words := pageWords(page); !strings.Contains(words, "day.csv: no such file") || strings.Contains(page, filepath.Dir(traceName)) {
		t.Errorf("%s", words)
	}
}

// A trace that takes the place of another counts from then on, and a result says of which it is. A replaced scenario is said.
func TestADayIsThatOfTheFileAsItIsNow(t *testing.T) {
	t.Parallel()
	cluster, traceName := filepath.Join(t.TempDir(), "cluster.txt"), traceFile(t, recordedHours)
	must(t, os.WriteFile(cluster, []byte(whatIfCluster), 0o600))
	handler, _ := dayPage(t, cluster, traceName, "1Gi")
	pool := manifestAt(t, handler, "NodePool/general")
	if page := compareOver(t, handler, pool); !strings.Contains(page, "Over 0.125 days these pods cost") || strings.Contains(page, "has been replaced") {
		t.Errorf("%s", pageWords(page))
	}
	other := strings.Replace(recordedHours, "T03:00:00Z,,500m", "T06:00:00Z,,500m", 1)
	must(t, os.WriteFile(traceName+".new", []byte(other+"shop,web-5,,2026-03-02T01:00:00Z,,500m,1Gi\n"), 0o600))
	must(t, os.Rename(traceName+".new", traceName))
	const now, before = "day.csv: 6 pods from 2026-03-02 00:00:00 UTC to 2026-03-02 06:00:00 UTC", "is of the one before: day.csv: 5 pods"
	if _, page := pageAt(t, handler, "/whatif"); !strings.Contains(page, now) || !strings.Contains(page, before) {
		t.Errorf("%s", pageWords(page))
	}
	page := compareOver(t, handler, pool)
	if !strings.Contains(page, "Over 0.25 days these pods cost") || strings.Contains(page, "one before") {
		t.Errorf("%s", pageWords(page))
	}
	if _, drawn := pageAt(t, handler, "/whatif/day.svg"); !strings.Contains(drawn, "0.25 days from") {
		t.Errorf("the picture is of another day: %s", drawn)
	}
	must(t, os.WriteFile(traceName, []byte("pod,arrival,cpu\n"), 0o600))
	if page := compareOver(t, handler, pool); strings.Count(page, "day.csv:1: column memory is missing") != 3 || strings.Contains(page, filepath.Dir(traceName)) { // as the day, and twice as what came of it
		t.Errorf("%s", pageWords(page))
	}
	must(t, os.WriteFile(traceName, []byte(recordedHours), 0o600))
	must(t, os.WriteFile(cluster, []byte(whatIfCluster+"\n"), 0o600))
	if page := compareOver(t, handler, pool); !strings.Contains(page, "The scenario cluster.txt has changed since this page read it: start tenon dashboard again") {
		t.Errorf("%s", pageWords(page))
	}
}

// The commands on the page, pasted into a shell, print what the page shows, whatever flags it was started with. What a scenario says of its
// cloud counts, and its workloads do not run.
func TestTheCommandsOfADayPrintTheSame(t *testing.T) {
	t.Parallel()
	const types = `[{"name": "small", "architecture": "amd64", "operatingSystems": ["linux"], "resources": {"cpu": "4", "memory": "16Gi"},
  "offerings": [{"zone": "a", "capacityType": "on-demand", "price": 0.05}]}]`
	const engineWords = " --max-pods-per-node=2 --node-overhead-price=0.05"
	for name, c := range map[string]struct {
		file, text, stdin string
		args, cloud, says string
	}{
		"manifests": {"it's a pool.yaml", poolManifests, "", "--instance-types=FOLDER/types.json --profile=fixed30" + engineWords, "fixed30",
			`tenon simulate -f 'it'\''s a pool.yaml' --instance-types=types.json --max-pods-per-node=2 --node-overhead-price=0.05 --profile=fixed30 --empty`},
		"a scenario": {"cluster.txt", whatIfCluster + "cloud fixed30\ndeployment api x5 cpu=500m mem=1Gi\nfault outage at=1h for=1h zone=a\nprovision effort=7\n", "", engineWords, "fixed30",
			"tenon simulate -f cluster.txt --max-pods-per-node=2 --node-overhead-price=0.05 --empty"},
		"a scenario and a cloud": {"cluster.txt", whatIfCluster + "cloud fixed30\n", "", "--profile=instant", "instant", "tenon simulate -f cluster.txt --profile=instant --empty"},
		"standard input":         {"-", "", poolManifests, "", "aws-typical", "# stdin.yaml stands for what this page was given on standard input.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			file := c.file
			if file == "-" {
				must(t, os.WriteFile(filepath.Join(folder, "stdin.yaml"), []byte(c.stdin), 0o600))
			} else {
				file = filepath.Join(folder, c.file)
				must(t, os.WriteFile(file, []byte(c.text), 0o600))
			}
			traceName := filepath.Join(folder, "day.csv")
			must(t, os.WriteFile(traceName, []byte(recordedHours), 0o600))
			o := dashboardOptions{planOptions: planOptions{engineFlags: defaultEngineFlags()}}
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			flags.StringVar(&o.profile, "profile", "", "")
			o.addCatalogFlags(flags)
			o.engineFlags.addFlags(flags)
			must(t, os.WriteFile(filepath.Join(folder, "types.json"), []byte(types), 0o600))
			must(t, flags.Parse(strings.Fields(strings.ReplaceAll(c.args, "FOLDER", folder))))
			o.files = []string{file}
			var err error
			o.day, err = readDay(traceName, "1Gi", o.profile)
			must(t, err)
			handler := handlerOf(t, o.source(flags, strings.NewReader(c.stdin), newTerminal(&strings.Builder{})))
			page := compareOver(t, handler, strings.Replace(manifestAt(t, handler, "NodePool/general"), "expireAfter: 720h0m0s", "expireAfter: 1h", 1))
			_, commands, found := strings.Cut(page, `id="day-commands"`)
			_, commands, _ = strings.Cut(commands, ">")
			commands, _, _ = strings.Cut(commands, "</pre>")
			if commands = html.UnescapeString(commands); !found || !strings.Contains(commands, c.says) || strings.Contains(commands, folder) {
				t.Fatalf("%s", commands)
			}
			shell := exec.CommandContext(t.Context(), "sh", "-c", commands+" -o json")
			shell.Dir = folder
			printed, err := shell.Output()
			must(t, err)
			if code, got := pageAt(t, handler, "/json/day"); code != 200 || got != string(printed) || !strings.Contains(got, `"profile": "`+c.cloud+`"`) {
				t.Errorf("%d, not what the commands print:\n%.500s\nbut\n%.500s", code, printed, got)
			}
			if strings.Contains(string(printed), `"pods": 8`) {
				t.Error("the scenario's workloads run")
			}
		})
	}
}

// What tenon simulate says in a line without an end is let go of piece by piece; what it says after it counts.
func TestALineWithoutAnEndTakesNoMemory(t *testing.T) {
	t.Parallel()
	done := 0
	s := &simulationSays{hiding: strings.NewReplacer(), hours: func(n, _ int) { done = n }}
	for range 5000 {
		if n, err := s.Write([]byte(strings.Repeat("x", 1000))); n != 1000 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		if len(s.begun) >= 64<<10 {
			t.Fatalf("%d bytes of the line are kept", len(s.begun))
		}
	}
	_, _ = s.Write([]byte("\nnote: it "))
	_, _ = s.Write([]byte("ends\nsimulated 3 of 4 hours\n"))
	if len(s.others) != 20 || done != 3 || strings.Join(s.notes, "|") != "it ends" {
		t.Errorf("%d other lines, %d hours, notes %q", len(s.others), done, s.notes)
	}
}

// manyRecorded is a trace of so many pods that come in a year and stay.
func manyRecorded(pods int) string {
	var b strings.Builder
	b.WriteString("pod,arrival,cpu,memory\n")
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range pods {
		b.WriteString("p" + strconv.Itoa(i) + "," + begin.Add(time.Duration(i)*365*24*time.Hour/time.Duration(pods)).Format(time.RFC3339) + ",1m,1Mi\n")
	}
	return b.String()
}

// children are the processes that simulate a trace.
func children(t *testing.T, traceName string) []string {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	var out []string
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), "simulate\x00") && strings.Contains(string(text), traceName) {
			out = append(out, strings.Split(name, "/")[2])
		}
	}
	return out
}

// awaitChild waits until a child has said how far it is.
func awaitChild(t *testing.T, page func() string) {
	t.Helper()
	for began := time.Now(); !regexp.MustCompile(`\d+ of \d+ hours are simulated`).MatchString(page()); {
		if time.Since(began) > longestWait {
			t.Fatal("no hour is simulated")
		}
	}
}

// Whoever cancels is answered once the process has gone; another comparison may begin then, and not before.
func TestADayIsCancelled(t *testing.T) {
	t.Parallel()
	traceName := traceFile(t, manyRecorded(1000))
	handler, day := dayPage(t, snapshotFile(t, whatIfCluster), traceName, "2Gi")
	pool := manifestAt(t, handler, "NodePool/general")
	for range 2 {
		if w := postForm(handler, "/whatif/day", pool); w.Code != http.StatusSeeOther {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		awaitChild(t, func() string { _, page := pageAt(t, handler, "/whatif"); return page })
		if w := postForm(handler, "/whatif/day", pool); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "there is one at a time") {
			t.Errorf("a second one: %d", w.Code)
		}
		if found := children(t, traceName); len(found) != 1 {
			t.Errorf("%d processes", len(found))
		}
		if w := postForm(handler, "/whatif/day/cancel", ""); w.Code != http.StatusSeeOther {
			t.Errorf("cancel: %d", w.Code)
		}
		if found := children(t, traceName); len(found) > 0 {
			t.Errorf("process %s is still there", found)
		}
		if _, page := pageAt(t, handler, "/whatif"); !strings.Contains(page, "Cancelled at") {
			t.Error("the page does not say so")
		}
	}
	day.running.Wait()
}

// With the server its comparison ends, however the server ends.
func TestADayEndsWithItsServer(t *testing.T) {
	t.Parallel()
	cluster := snapshotFile(t, whatIfCluster)
	pool := manifestAt(t, pageOf(t, cluster), "NodePool/general")
	for name, signal := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGKILL": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			traceName := traceFile(t, manyRecorded(1000))
			command := exec.CommandContext(t.Context(), "tenon", "dashboard", "-f", cluster, "--trace", traceName, "--address", "127.0.0.1:0")
			out, err := command.StdoutPipe()
			must(t, err)
			must(t, command.Start())
			line, err := bufio.NewReader(out).ReadString('\n')
			must(t, err)
			site := regexp.MustCompile(`http://\S+`).FindString(line)
			read := func(reply *http.Response, err error) string {
				must(t, err)
				defer reply.Body.Close()
				text, err := io.ReadAll(reply.Body)
				must(t, err)
				return string(text)
			}
			jar, err := cookiejar.New(nil)
			must(t, err)
			browser := &http.Client{Jar: jar}
			read(browser.Get(site)) // with its token, which the cookie keeps
			site, _, _ = strings.Cut(site, "/?")
			read(browser.PostForm(site+"/whatif/day", url.Values{"text": {pool}}))
			awaitChild(t, func() string { return read(browser.Get(site + "/whatif")) })
			if found := children(t, traceName); len(found) != 1 {
				t.Errorf("%d processes", len(found))
			}
			must(t, command.Process.Signal(signal))
			_ = command.Wait() // it says by which signal it has ended
			for began := time.Now(); len(children(t, traceName)) > 0; {
				if time.Since(began) > longestWait {
					t.Fatal("the process is still there")
				}
			}
		})
	}
}
