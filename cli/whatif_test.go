package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/scenario"
)

// whatIfCluster has a pool at its limit with a node that would drift by a change, and waiting pods.
const whatIfCluster = `now 2026-01-01T12:00:00Z
type m cpu=4 mem=16Gi zones=a,b price=0.20
type l cpu=8 mem=32Gi zones=a,b price=0.38
pool general limits=cpu:8
pool idle zone in (b)
node n1 pool=general type=m zone=a age=5h quiet=2h
node n2 pool=general type=m zone=b age=5h quiet=2h
node n3 pool=idle type=l zone=b age=5h quiet=2h
pods web x3 ns=shop cpu=1 mem=1Gi node=n1 owner=ReplicaSet/web
pod keys ns=vault cpu=3 mem=1Gi node=n2 owner=ReplicaSet/keys do-not-disrupt
pods late x4 ns=shop cpu=3 mem=1Gi owner=ReplicaSet/late zone in (a)
pods hidden x2 ns=vault cpu=3 mem=1Gi owner=ReplicaSet/hidden zone in (a)
`

// snapshotFile writes a scenario as a snapshot for tenon plan -f, and returns the file's name.
func snapshotFile(t *testing.T, text string) string {
	t.Helper()
	file, err := scenario.Parse(text)
	must(t, err)
	var out strings.Builder
	must(t, scenario.Write(&out, file.Snapshot, file.Options))
	name := filepath.Join(t.TempDir(), "cluster.yaml")
	must(t, os.WriteFile(name, []byte(out.String()), 0o600))
	return name
}

func askWhatIf(t *testing.T, handler http.Handler, text string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://localhost/json/whatif", strings.NewReader(text))
	r.Header.Set("Content-Type", "application/yaml")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// whatIfPage returns the visible text after the form was sent.
func whatIfPage(t *testing.T, handler http.Handler, text string) string {
	t.Helper()
	var w *httptest.ResponseRecorder
	for range 20 { // a server that is busy with an abandoned plan answers "try again" after it has waited itself
		r := httptest.NewRequest(http.MethodPost, "http://localhost/whatif", strings.NewReader(url.Values{"text": {text}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w = httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable {
			break
		}
	}
	if w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return strings.Join(strings.Fields(pageWords(w.Body.String())), " ")
}

func manifestAt(t *testing.T, handler http.Handler, name string) string {
	t.Helper()
	code, page := pageAt(t, handler, "/whatif?from="+url.QueryEscape(name))
	_, text, found := strings.Cut(page, "<textarea")
	_, text, _ = strings.Cut(text, ">\n")
	text, _, _ = strings.Cut(text, "</textarea>")
	if code != 200 || !found {
		t.Fatalf("%s: %d", name, code)
	}
	return strings.NewReplacer("&#39;", "'", "&#34;", `"`, "&gt;", ">", "&lt;", "<", "&#43;", "+", "&amp;", "&").Replace(text)
}

// The page's plan of a change equals the plan of tenon plan for a file with the change.
func TestWhatIfIsWhatPlanSaysOfTheChangedFile(t *testing.T) {
	t.Parallel()
	before := snapshotFile(t, whatIfCluster)
	handler := pageOf(t, before)
	pool := func(old, with string) string {
		text := manifestAt(t, handler, "NodePool/general")
		if !strings.Contains(text, old) {
			t.Fatalf("the pool's text lacks %q:\n%s", old, text)
		}
		return strings.Replace(text, old, with, 1)
	}
	for name, c := range map[string]struct{ change, cluster string }{
		"a limit is raised":      {pool(`cpu: "8"`, `cpu: "40"`), strings.Replace(whatIfCluster, "limits=cpu:8", "limits=cpu:40", 1)},
		"nothing is changed":     {pool("", ""), whatIfCluster},
		"a zone is left out":     {pool("requirements: []", "requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]"), strings.Replace(whatIfCluster, "limits=cpu:8", "limits=cpu:8 zone in (a)", 1)},
		"prices rise":            {"apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: dear}\nspec: {requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m]}], priceAdjustment: '+50%'}", whatIfCluster + "overlay dear adjust=+50% type in (m)\n"},
		"a Deployment has less":  {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: late, namespace: shop}\nspec: {replicas: 1}", strings.Replace(whatIfCluster, "late x4", "late x1", 1)},
		"a Deployment has more":  {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: late, namespace: shop}\nspec: {replicas: 6}", strings.Replace(whatIfCluster, "late x4", "late x6", 1)},
		"a second pool is there": {strings.Replace(pool("  limits:\n    cpu: \"8\"\n", ""), "name: general", "name: more", 1), whatIfCluster + "pool more\n"},
	} {
		changed := snapshotFile(t, c.cluster)
		want, _, err := run(t, "plan", "--disrupt", "-f", changed, "-o", "json")
		if err != nil && err != errUnplaced {
			t.Fatal(err)
		}
		code, got := askWhatIf(t, handler, c.change)
		if code != 200 || got != want {
			t.Errorf("%s: %d, not what tenon plan says:\n%s\nwant\n%s", name, code, got, want)
		}
		change := filepath.Join(t.TempDir(), "changed.yaml")
		must(t, os.WriteFile(change, []byte(c.change), 0o600))
		if got, _, err := run(t, "plan", "--disrupt", "-f", before, "--change", change, "-o", "json"); err != nil && err != errUnplaced || got != want {
			t.Errorf("%s: --change says something else: %v\n%s", name, err, got)
		}
	}
}

func TestWhatIfSaysInWordsWhatAChangeDoes(t *testing.T) {
	t.Parallel()
	handler := pageOf(t, snapshotFile(t, whatIfCluster))
	text := manifestAt(t, handler, "NodePool/general")
	raised := whatIfPage(t, handler, strings.Replace(text, `cpu: "8"`, `cpu: "40"`, 1))
	for _, want := range []string{
		"the first pass, within budgets, takes the bill from $0.7800/h now to", "once the change is complete, with all pods placed anew, the bill is $", "pods that nothing can run 6 0", "machines to start 0", "6 pods less that nothing can run",
		"more to start in pool general", "kubectl diff -f changed.yaml kubectl apply -f changed.yaml", "to be started launch pool type",
	} {
		if !strings.Contains(raised, want) {
			t.Errorf("a raised limit: the page lacks %q:\n%s", want, raised)
		}
	}
	drift := whatIfPage(t, handler, strings.Replace(text, "requirements: []", "requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]", 1))
	for _, want := range []string{"nodes that have drifted 0 1", "node n2 drifts: requirementsdrifted"} {
		if !strings.Contains(drift, want) {
			t.Errorf("a zone less: the page lacks %q:\n%s", want, drift)
		}
	}
	if same := whatIfPage(t, handler, text); !strings.Contains(same, "the plan is the same as without the change") || strings.Contains(same, "what is different") {
		t.Errorf("nothing changed: %s", same)
	}
	scaled := whatIfPage(t, handler, strings.Replace(manifestAt(t, handler, "Deployment/shop/late"), "replicas: 4", "replicas: 1", 1))
	if !strings.Contains(scaled, "kubectl --namespace shop scale deployment/late --replicas=1") || !strings.Contains(scaled, "pods that nothing can run 6 3") || strings.Contains(scaled, "kubectl apply") {
		t.Errorf("a Deployment: %s", scaled)
	}
	buffer := whatIfPage(t, handler, "apiVersion: v1\nkind: PodTemplate\nmetadata: {name: room, namespace: shop}\ntemplate: {spec: {containers: [{name: app, resources: {requests: {cpu: 2}}}]}}\n---\n"+
		"apiVersion: autoscaling.x-k8s.io/v1beta1\nkind: CapacityBuffer\nmetadata: {name: room, namespace: shop}\nspec: {podTemplateRef: {name: room}, replicas: 2}\n")
	if !strings.Contains(buffer, "a capacitybuffer keeps room for 2 pods") {
		t.Errorf("a buffer: %s", buffer)
	}
	wrong := whatIfPage(t, handler, strings.Replace(text, "limits:", "limit:", 1))
	if !strings.Contains(wrong, `unknown field "spec.limit": did you mean spec.limits?`) || !strings.Contains(wrong, "1 mistake. nothing was planned") || strings.Contains(wrong, "to be started") {
		t.Errorf("a mistake: %s", wrong)
	}
}

// The bill of the complete change equals that of tenon savings --change, plus the machines for waiting pods.
func TestWhatIfSaysWhatTheCompleteChangeCosts(t *testing.T) {
	t.Parallel()
	const cluster = "type m cpu=4 mem=16Gi zones=a,b price=0.20 spot=0.06\npool general budget=1\n" +
		"node n1 pool=general type=m zone=a age=5h quiet=2h capacity=spot\nnode n2 pool=general type=m zone=b age=5h quiet=2h capacity=spot\n" +
		"pods web x3 ns=shop cpu=1 mem=1Gi node=n1 owner=ReplicaSet/web\npods api x3 ns=shop cpu=1 mem=1Gi node=n2 owner=ReplicaSet/api\n"
	before := snapshotFile(t, cluster)
	handler := pageOf(t, before)
	change := strings.Replace(manifestAt(t, handler, "NodePool/general"), "requirements: []", "requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]", 1)
	name := filepath.Join(t.TempDir(), "changed.yaml")
	must(t, os.WriteFile(name, []byte(change), 0o600))
	text, _, err := run(t, "savings", "-f", before, "--change", name, "-o", "json")
	must(t, err)
	var d struct{ PlannedPerHour float64 }
	must(t, json.Unmarshal([]byte(text), &d))
	first, complete := "takes the bill from", fmt.Sprintf("with all pods placed anew, the bill is %s/h", engine.Dollars(d.PlannedPerHour))
	if page := whatIfPage(t, handler, change); !strings.Contains(page, first) || !strings.Contains(page, complete) {
		t.Errorf("the page lacks %q: %s", complete, page)
	}
	list, _, err := run(t, "nodes", "-f", before, "--change", name)
	must(t, err)
	if !strings.Contains(list, "Drifted") {
		t.Errorf("tenon nodes --change: %s", list)
	}
}

// Each object that the page offers is valid and changes nothing.
func TestWhatIfBeginsWithObjectsThatChangeNothing(t *testing.T) {
	t.Parallel()
	manifests := filepath.Join(t.TempDir(), "cluster.yaml")
	must(t, os.WriteFile(manifests, []byte(dashboardManifests), 0o600))
	for _, file := range []string{manifests, "../dashboard/testdata/cluster.txt", snapshotFile(t, whatIfCluster+"overlay dear adjust=+50% type in (m)\nbuffer spare ns=shop replicas=2 cpu=1\n")} {
		handler := pageOf(t, file)
		_, page := pageAt(t, handler, "/whatif")
		names := 0
		for i, part := range strings.Split(page, `<option value="`)[2:] {
			if i > 3 { // the others are similar
				break
			}
			name, _, _ := strings.Cut(part, `"`)
			if strings.HasPrefix(name, "NodePool, changed/") {
				break
			}
			names++
			if answer := whatIfPage(t, handler, manifestAt(t, handler, name)); !strings.Contains(answer, "the plan is the same as without the change") {
				t.Errorf("%s of %s: %s", name, filepath.Base(file), answer)
			}
		}
		if names == 0 {
			t.Errorf("%s offers nothing to begin with", file)
		}
	}
}

// Usual questions need no typing: each is a pool of the cluster with one change.
func TestWhatIfOffersTheUsualQuestions(t *testing.T) {
	t.Parallel()
	handler := pageOf(t, snapshotFile(t, `
pool general capacity in (on-demand) type in (small) limits=cpu:40 consolidate-after=5m
type small cpu=2 mem=8Gi price=0.10 spot=0.03
type large cpu=8 mem=32Gi price=0.30
pods web x8 cpu=900m mem=1Gi
`))
	for question, want := range map[string]string{
		"allow spot":                         "takes the bill from $0.0000/h now to $0.1200/h; without the change to $0.4000/h",
		"no requirement about instance-type": "to $0.3000/h; without the change to $0.4000/h",
		"no limits":                          "the plan is the same as without the change",
		"consolidateAfter 1h":                "the plan is the same as without the change",
		"consolidationPolicy WhenEmpty":      "the plan is the same as without the change",
		"payback 24h":                        "the plan is the same as without the change",
	} {
		text := manifestAt(t, handler, "NodePool, changed/general: "+question)
		if answer := whatIfPage(t, handler, text); !strings.Contains(answer, want) {
			t.Errorf("%s: %s", question, answer)
		}
	}
	_, page := pageAt(t, handler, "/whatif?from=NodePool%2C+changed%2Fgeneral%3A+no+limits")
	if !strings.Contains(page, "data-ask") || strings.Contains(page, "Change the text") {
		t.Error("a question is not answered before somebody types")
	}
	if _, page := pageAt(t, handler, "/whatif"); strings.Contains(page, "on-demand alone") || strings.Contains(page, "data-ask") {
		t.Error("a pool without spot is asked to do without it")
	}
	if text := manifestAt(t, handler, "NodePool, changed/general: consolidateAfter 1h"); !strings.Contains(text, "consolidateAfter: 1h") {
		t.Error(text)
	}
}
