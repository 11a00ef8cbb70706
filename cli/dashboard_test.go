package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"tenon.sh/dashboard"
	"tenon.sh/engine"
	"tenon.sh/engine/disruption"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/workload"
)

// pageOf returns the page of files, as tenon dashboard -f serves it.
func pageOf(t *testing.T, files ...string) http.Handler {
	t.Helper()
	o := dashboardOptions{planOptions: planOptions{engineFlags: defaultEngineFlags(), files: files}}
	command := newDashboard()
	var notes bytes.Buffer
	return handlerOf(t, o.source(command.Flags(), command.InOrStdin(), newTerminal(&notes)))
}

func handlerOf(t testing.TB, source dashboard.Source) http.Handler {
	t.Helper()
	reader, err := dashboard.NewReader(t.Context(), source, 0, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := dashboard.Handler(reader, dashboard.Options{TryLimit: 5 * time.Minute}) // a long limit, because tests share their machine
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

func pageAt(t testing.TB, handler http.Handler, address string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+address, nil)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// poolManifests are a NodePool and its node class.
const poolManifests = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      requirements: []
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
---
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
`

const dashboardManifests = poolManifests + `---
apiVersion: v1
kind: Node
metadata: {name: own}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, resources: {requests: {cpu: 3}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: ml}
spec: {containers: [{name: app, resources: {requests: {cpu: 1}, limits: {nvidia.com/gpu: 9}}}]}
`

// The page's documents equal the output of the commands, byte for byte.
func TestDashboardServesTheDocumentsOfTheCommands(t *testing.T) {
	t.Parallel()
	manifests := filepath.Join(t.TempDir(), "cluster.yaml")
	must(t, os.WriteFile(manifests, []byte(dashboardManifests), 0o600))
	const cluster = "../dashboard/testdata/cluster.txt"
	for _, c := range []struct {
		file, address string
		command       []string
	}{
		{cluster, "/json/nodes", []string{"nodes"}},
		{cluster, "/json/savings", []string{"savings"}},
		{manifests, "/json/savings", []string{"savings"}},
		{cluster, "/json/explain/node/ip-10-0-1-58", []string{"explain", "node", "ip-10-0-1-58"}},
		{cluster, "/json/explain/claim/general-x7k2p", []string{"explain", "node", "general-x7k2p"}},
		{cluster, "/json/explain/pool/gpu", []string{"explain", "nodepool", "gpu"}},
		{cluster, "/json/explain/pod/ml/finetune-1", []string{"explain", "pod", "finetune-1", "-n", "ml"}},
		{cluster, "/json/explain/pod/shop/frontend-19", []string{"explain", "pod", "frontend-19", "-n", "shop"}},
		{manifests, "/json/nodes", []string{"nodes"}},
		{manifests, "/json/plan", []string{"plan", "--disrupt"}},
		{manifests, "/json/explain/pod/ml/train", []string{"explain", "pod", "ml/train"}},
		{manifests, "/json/explain/node/own", []string{"explain", "node", "own"}},
	} {
		want, _, err := run(t, append(c.command, "-f", c.file, "-o", "json")...)
		if err != nil && err != errUnplaced {
			t.Fatal(err)
		}
		if code, got := pageAt(t, pageOf(t, c.file), c.address); code != 200 || got != want {
			t.Errorf("%s of %s: %d, not what %s prints:\n%s\nwant\n%s", c.address, filepath.Base(c.file), code, c.command, got, want)
		}
	}
}

// The pages that name PodGroups and ProvisioningRequests have links to their explanations.
func TestDashboardLinksToWhatStartsTogether(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "cluster.txt")
	must(t, os.WriteFile(file, []byte("pool general limits=cpu:4\ntype two cpu=2 mem=8Gi price=0.1\nrequest spare class=check count=3 cpu=900m\n"+
		"gang large min=9\npods large x9 cpu=1500m gang=large\n"), 0o600))
	handler := pageOf(t, file)
	const group, request = `<a href="/why/podgroup/default/large">default/large</a>`, `<a href="/why/provisioningrequest/default/spare">default/spare</a>`
	for address, want := range map[string]string{
		"/waiting":                               "pod group " + group + " starts with 9 pods",
		"/why/pod/default/large-1":               "pod group " + group + " starts with 9 pods",
		"/why/podgroup/default/large":            "pod group " + group + " starts with 9 pods",
		"/why?q=large":                           group,
		"/why?q=spare":                           request,
		"/why/provisioningrequest/default/spare": "CapacityIsNotFound",
	} {
		if code, page := pageAt(t, handler, address); code != 200 || !strings.Contains(page, want) {
			t.Errorf("%s: %d, and nothing says %s", address, code, want)
		}
	}
	for address, command := range map[string][]string{
		"/json/explain/podgroup/default/large":            {"explain", "podgroup", "large"},
		"/json/explain/provisioningrequest/default/spare": {"explain", "provreq", "spare"},
	} {
		want, _, err := run(t, append(command, "-f", file, "-o", "json")...)
		must(t, err)
		if code, got := pageAt(t, handler, address); code != 200 || got != want {
			t.Errorf("%s: %d %s\nwant\n%s", address, code, got, want)
		}
	}
	if code, page := pageAt(t, handler, "/why/podgroup/default/none"); code != 404 || !strings.Contains(page, "There is no podgroup none") {
		t.Errorf("of a group that is not there: %d %s", code, page)
	}
}

func TestDashboardTellsTheStoriesOfExplain(t *testing.T) {
	t.Parallel()
	const cluster = "../dashboard/testdata/cluster.txt"
	handler := pageOf(t, cluster)
	for address, command := range map[string][]string{
		"/why/node/ip-10-0-1-58":   {"explain", "node", "ip-10-0-1-58"},
		"/why/pool/gpu":            {"explain", "nodepool", "gpu"},
		"/why/pod/ml/finetune-1":   {"explain", "pod", "ml/finetune-1"},
		"/why/pod/ml/embed-1":      {"explain", "pod", "ml/embed-1"},
		"/why/claim/general-x7k2p": {"explain", "node", "general-x7k2p"},
	} {
		text, _, err := run(t, append(command, "-f", cluster)...)
		must(t, err)
		_, page := pageAt(t, handler, address)
		page = pageWords(page)
		_, text, _ = strings.Cut(text, ": ")
		for word := range strings.FieldsSeq(strings.ToLower(text)) {
			i := strings.Index(page, word)
			if i < 0 {
				t.Errorf("%s does not say %q, which %s does, at its place", address, word, command)
				break
			}
			page = page[i:]
		}
	}
}

// pageWords returns the visible text of the main part of a page.
func pageWords(page string) string {
	_, page, _ = strings.Cut(page, "<main")
	var out strings.Builder
	for part := range strings.SplitSeq(page, "<") {
		_, text, _ := strings.Cut(part, ">")
		out.WriteString(text + " ")
	}
	return strings.ToLower(strings.NewReplacer("&#39;", "'", "&#34;", `"`, "&gt;", ">", "&lt;", "<", "&#43;", "+", "&amp;", "&").Replace(out.String()))
}

func TestDashboardSaysWhatTheCommandSaysOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	const cluster = "../dashboard/testdata/cluster.txt"
	handler := pageOf(t, cluster)
	_, _, err := run(t, "explain", "nodepool", "genral", "-f", cluster)
	if code, page := pageAt(t, handler, "/why/pool/genral"); err == nil || code != 404 || !strings.Contains(page, capital(err.Error())) {
		t.Errorf("%d, without %v", code, err)
	}
}

// The classes of pods add up to the pods that tenon nodes counts as waiting.
func TestDashboardShowsEveryPodThatWaits(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../dashboard/testdata/cluster.txt")
	must(t, err)
	file, err := scenario.Parse(string(text))
	must(t, err)
	p, err := newPicture("x", &scenario.Reading{Snapshot: file.Snapshot, Options: file.Options})
	must(t, err)
	waiting := 0
	for i := range p.Pods {
		if p.Pods[i].Waiting != nil {
			waiting++
		}
	}
	var nodes struct{ Waiting int }
	must(t, json.Unmarshal(p.Nodes, &nodes))
	if waiting != nodes.Waiting || waiting < 40 {
		t.Errorf("%d pods wait, of %d", waiting, nodes.Waiting)
	}
}

func TestDashboardRefusesToBeOpenByOneFlagAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"--address 0.0.0.0:0", "without encryption"},
		{"--address :0", "without encryption"},
		{"--address example.com:80", "without encryption"},
		{"--address 127.0.0.1", "it is a host and a port"},
		{"--every 1ms", "at least 1s"},
		{"--what-if-limit 0s", "more than 0 and at most 50s"},
		{"--what-if-limit 51s", "more than 0 and at most 50s"},
		{"-f nothing.yaml --address 127.0.0.1:0", "no such file"},
		{"-f nothing.txt --export x.html", "no such file"},
		{"cluster.yaml", "name files with -f"},
	} {
		_, _, err := run(t, append([]string{"dashboard"}, strings.Fields(c.args)...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.args, err, c.want)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	_, _, err = run(t, "dashboard", "-f", "../dashboard/testdata/cluster.txt", "--address", taken.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "is taken by another program: choose another with --address") {
		t.Errorf("a taken port: %v", err)
	}
}

// servedDashboard serves the page of a file until ctx ends. It returns the address with a token, as tenon dashboard prints it, and the
// command's result.
func servedDashboard(ctx context.Context, t *testing.T, flags ...string) (address string, ended <-chan error) {
	t.Helper()
	out, in := io.Pipe()
	command := New()
	command.SetArgs(append([]string{"dashboard", "-f", "../dashboard/testdata/cluster.txt", "--address", "127.0.0.1:0"}, flags...))
	command.SetOut(in)
	result := make(chan error, 1)
	go func() { result <- command.ExecuteContext(ctx) }()
	line := make([]byte, 200)
	n, err := out.Read(line)
	must(t, err)
	_, address, _ = strings.Cut(string(line[:n]), "The page is at ")
	address, _, _ = strings.Cut(address, " ")
	return address, result
}

func TestDashboardPrintsItsAddressAndEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	address, ended := servedDashboard(ctx, t)
	answer, err := http.Get(address)
	must(t, err)
	answer.Body.Close()
	if answer.StatusCode != 200 {
		t.Errorf("%s: %s", address, answer.Status)
	}
	bare, _, _ := strings.Cut(address, "?")
	if code, text := get(t, http.DefaultClient, bare, ""); code != http.StatusUnauthorized || !strings.Contains(text, "?token=") {
		t.Errorf("another user of this machine is told %d %s", code, text)
	}
	stopped := time.Now()
	stop()
	if err := <-ended; err != nil || time.Since(stopped) > time.Second {
		t.Errorf("ended after %s with %v", time.Since(stopped), err)
	}
}

func TestDashboardPlansAChangeForAsLongAsItIsTold(t *testing.T) {
	t.Parallel()
	address, _ := servedDashboard(t.Context(), t, "--what-if-limit", "1us")
	const wide = `{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "wide"}, "spec": {"template": {"spec": {"requirements": [],
		"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}}}`
	answer, err := http.Post(strings.Replace(address, "/?", "/json/whatif?", 1), "application/json", strings.NewReader(wide))
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	if want := "There was no answer within 1e-06 s"; answer.StatusCode != http.StatusGatewayTimeout || !strings.HasPrefix(string(text), want) {
		t.Errorf("%s: %s, want %s", answer.Status, text, want)
	}
}

func TestDashboardIsExportedToOneFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "page.html")
	_, _, err := run(t, "dashboard", "-f", "../dashboard/testdata/cluster.txt", "--export", file)
	must(t, err)
	page, err := os.ReadFile(file)
	must(t, err)
	for _, want := range []string{"ip-10-0-1-58", "finetune", "<h3>gpu</h3>"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the file does not have %s in it", want)
		}
	}
}

// BenchmarkDashboard measures the page of 5,000 nodes and 100,000 pods: the cost of reading them, and of each page.
func BenchmarkDashboard(b *testing.B) {
	s := workload.Running(workload.Diverse(200, 1), 5_000, 100_000, 1)
	reading := &scenario.Reading{Snapshot: s}
	var picture *dashboard.Picture
	b.Run("documents", func(b *testing.B) {
		plan := disruption.Plan(s, engine.Options{}, nil)
		for b.Loop() {
			newNodeTable(s, plan)
		}
	})
	b.Run("reading", func(b *testing.B) {
		for b.Loop() {
			var err error
			if picture, err = newPicture("large", reading); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, limit := range map[string]time.Duration{"what if": time.Hour, "what if, given up": 2 * time.Second} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				started := time.Now()
				text, err := picture.Manifests[0].Text()
				var out *dashboard.Outcome
				if err == nil {
					out, err = picture.Try([]byte(text), func() bool { return time.Since(started) > limit })
				}
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(time.Since(started).Seconds(), "s-to-launches")
				if _, err := out.Rest(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	handler := handlerOf(b, func(context.Context) (*dashboard.Picture, error) { return picture, nil })
	for _, address := range []string{"/", "/?filter=pod-17", "/waiting", "/why?q=node-4", "/json/nodes"} {
		b.Run(address, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodGet, "http://localhost"+address, nil)
				r.Header.Set("Accept-Encoding", "gzip")
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				b.ReportMetric(float64(w.Body.Len()), "wire-bytes")
			}
		})
	}
}

// BenchmarkPassesWhileSomebodyLooks measures how much longer plans of 5,000 nodes and 100,000 pods take while the leader makes pictures for
// its page: while one is being made, and on average, because pictures get a tenth of the time. The number of readers does not matter, because
// they see one picture.
func BenchmarkPassesWhileSomebodyLooks(b *testing.B) {
	s := workload.Running(workload.Diverse(200, 1), 5_000, 100_000, 1)
	pass := func() {
		if plan := provisioning.Plan(s, engine.Options{Threads: runtime.GOMAXPROCS(0)}, nil); len(plan.Launches)+len(plan.Placements) == 0 {
			b.Error("no pod has a place")
		}
	}
	for b.Loop() {
		pass()
		began, alone := time.Now(), 10.0
		for range int(alone) {
			pass()
		}
		alone = time.Since(began).Seconds() / alone

		made := make(chan time.Duration)
		go func() {
			began := time.Now()
			reading := &scenario.Reading{Snapshot: s, Options: engine.Options{Threads: 1}}
			if _, err := newPicture("large", reading); err != nil {
				b.Error(err)
			}
			savingsOf(planOptions{}, reading)
			made <- time.Since(began)
		}()
		beside, passes := time.Now(), 0.0
		var took time.Duration
		for took == 0 {
			pass()
			passes++
			select {
			case took = <-made:
			default:
			}
		}
		each := time.Since(beside).Seconds() / passes / alone
		b.ReportMetric(alone, "s-pass")
		b.ReportMetric(took.Seconds(), "s-picture")
		b.ReportMetric(each, "x-while-made")
		b.ReportMetric(1+(each-1)*took.Seconds()/(took+max(leaderEvery, 9*took)).Seconds(), "x-average")
		b.ReportMetric(0, "ns/op")
	}
}
