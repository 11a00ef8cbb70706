package scenario_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/scenario"
)

func parse(t *testing.T, text string) *scenario.File {
	t.Helper()
	f, err := scenario.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestErrorsNameLineAndWord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"poll general", "line 1: poll: unknown statement"},
		{"\npool", "line 2: pool: a name is missing"},
		{"pool a\npool a", "line 2: a: there is a pool of this name already"},
		{"pool a wight=3", "line 1: wight=3: pool has no such word"},
		{"pool a weight=x", `line 1: weight=x: "x" is not a whole number`},
		{"pool a zone in a", "line 1: in: write the values in parentheses: zone in (a)"},
		{"pool a zone in", "line 1: in: values are missing"},
		{"pool a limits=cpu:many", `"many" is not a quantity`},
		{"pool a taint=x", "write a taint as key=value:NoSchedule"},
		{"pool a taint=x:Never", `there is no taint effect "Never"`},
		{"type t cpu=1", "line 1: t: the type has no price"},
		{"type t cpu=1 price=-1", "is not a price"},
		{"type t price=1 sold-out=z", "sold-out=z: the type has no such offering"},
		{"type t price=1\ntype t price=1", "line 2: t: class default has a type of this name already"},
		{"node n pool=p", `line 1: n: there is no pool "p" above`},
		{"pool p\nnode n pool=p type=t", `line 2: n: there is no type "t" above`},
		{"pool p\nnode n pool=p", "the machine's type is missing"},
		{"pods web cpu=1", "line 1: web: say how many"},
		{"pod web x3", "line 1: web: write pods for several"},
		{"pod web cpu=1 init=cpu", "write the value in parentheses"},
		{"pod web or zone in (a)", "there is no requirement before this"},
		{"pod web age=soon", `"soon" is not a duration`},
		{"pod a\npod a", "there is a pod a already"},
		{"pod web zone in (a", "the ( is not closed"},
		{`pod web labels="a`, "the quote is not closed"},
		{"catalog gcp x", `there is no built-in catalog "gcp"`},
		{"now yesterday", "line 1: yesterday: this is no time"},
		{"delete pod x", "line 1: x: there is no such pod"},
		{"provision fast", "line 1: fast: provision has no such word"},
		{"yaml\nkind: Pod", "line 1: yaml: there is no line that says end"},
		{"yaml\nkind: [\nend", "line 1: yaml: yaml, document 1, line 1"},
		{"pod =x", "this should be the name of the pod"},
	} {
		_, err := scenario.Parse(c.text)
		var syntax *scenario.SyntaxError
		if !errors.As(err, &syntax) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
		}
	}
}

// No part of a file is silently ignored.
func TestAFileIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"kind: A\napiVersion: v1\n---\nkind: B\napiVersion: v1\n":                       "A B",
		"kind: A\napiVersion: v1\n...\nkind: B\napiVersion: v1\n":                       "A B",
		"kind: A\napiVersion: v1\n... # the end\n--- # next\nkind: B\napiVersion: v1\n": "A B",
		"--- {kind: A, apiVersion: v1}\n--- {kind: B, apiVersion: v1}\n":                "A B",
		"  kind: A\n  apiVersion: v1\n":                                                 "A",
		" apiVersion: v1\nkind: A\n":                                                    "line 2: it is indented less than the document begins",
		"kind: A\napiVersion: v1\n---\n  kind: B\n  apiVersion: v1\nspec: {}\n":         "document 2, line 6: it is indented less",
	} {
		documents, err := scenario.Documents(scenario.Source{Name: "x", Data: []byte(text)})
		var kinds []string
		for _, d := range documents {
			kinds = append(kinds, d.Object.GetKind())
		}
		if got := strings.Join(kinds, " "); err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: kinds %q, error %v; want %s", text, got, err, want)
		}
	}
}

func TestStatementsMakeObjects(t *testing.T) {
	t.Parallel()
	s := parse(t, `
# A comment, and a statement over two lines.
pool general weight=3 limits=cpu:10,nodes:2 taint=gpu=yes:NoSchedule zone in (a,b) family exists min=2
  startup-taint=cni:NoExecute labels=team:blue consolidate-after=30s budget=(nodes=0 schedule="0 9 * * *" duration=8h reasons=Empty)
type small cpu=2 mem=4Gi zones=a,b price=0.05 spot=0.02 sold-out=b/spot overhead=cpu:100m nvidia.com/gpu=1 labels=family:c|d,gen:
node n1 pool=general type=small zone=a age=2h quiet=10m planned=web-1
node own cpu=4 mem=8Gi zone=b not-ready
claim c1 pool=general type=small
pods web x2 cpu=500m mem=1Gi zone in (a) arch exists or zone in (b) tolerate=gpu=yes:NoSchedule init=(cpu=1) sidecar=(cpu=10m) owner=Deployment
pod busy cpu=1 node=n1 do-not-disrupt nvidia.com/gpu=1
daemonset log cpu=10m
pdb web max=1 allowed=1
wait 1m
`).Snapshot
	pool := s.NodePools[0]
	if *pool.Spec.Weight != 3 || len(pool.Spec.Template.Spec.Requirements) != 2 || *pool.Spec.Template.Spec.Requirements[1].MinValues != 2 {
		t.Errorf("pool: %+v", pool.Spec)
	}
	if b := pool.Spec.Disruption.Budgets[0]; b.Nodes != "0" || *b.Schedule != "0 9 * * *" || b.Duration.Duration != 8*time.Hour {
		t.Errorf("budget: %+v", b)
	}
	if !v1.IsTrue(pool, v1.ConditionReady) {
		t.Error("the pool is not ready")
	}
	small := s.Classes[0].InstanceTypes[0]
	if len(small.Offerings) != 4 || len(small.Labels["family"]) != 2 || small.Labels["gen"] != nil {
		t.Errorf("type: %+v", small)
	}
	for _, o := range small.Offerings {
		if o.SoldOut != (o.Zone == "b" && o.CapacityType == "spot") {
			t.Errorf("offering: %+v", o)
		}
	}
	if len(s.Nodes) != 2 || len(s.NodeClaims) != 2 || s.Nodes[0].Labels[v1.InitializedLabelKey] != "true" {
		t.Errorf("nodes: %v", s.Nodes)
	}
	if got := s.Nodes[0].Status.Allocatable.Cpu(); got.Cmp(resource.MustParse("1900m")) != 0 {
		t.Errorf("allocatable cpu: %s", got)
	}
	web := s.Pods[0]
	terms := web.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if web.Name != "web-1" || len(terms) != 2 || len(terms[0].MatchExpressions) != 2 || !kube.IsPending(web) {
		t.Errorf("pod: %+v", web)
	}
	if len(web.Spec.InitContainers) != 2 || web.OwnerReferences[0].Kind != "ReplicaSet" {
		t.Errorf("pod: %+v", web.Spec.InitContainers)
	}
	if busy := s.Pods[2]; kube.IsPending(busy) || !kube.ProtectionOf(busy, s.Now).Active || busy.Status.Phase != corev1.PodRunning {
		t.Errorf("bound pod: %+v", busy)
	}
	if len(s.DaemonSets)+len(s.PodDisruptionBudgets) != 2 {
		t.Error("a DaemonSet or budget is missing")
	}
}

func TestInlineYAMLMakesObjects(t *testing.T) {
	t.Parallel()
	s := parse(t, "pool general\nyaml\nkind: Pod\napiVersion: v1\nmetadata: {name: odd}\nspec: {containers: [{name: a}]}\nend\n").Snapshot
	if len(s.Pods) != 1 || !kube.IsPending(s.Pods[0]) || s.Pods[0].Namespace != "default" {
		t.Errorf("pods: %+v", s.Pods)
	}
}

func TestPodNamesAreGrouped(t *testing.T) {
	t.Parallel()
	var pods []engine.PodID
	for _, name := range []string{"web-10", "web-9", "web-8", "web-7", "api", "db-1", "db-2", "x-01"} {
		pods = append(pods, engine.PodID{Namespace: "default", Name: name})
	}
	pods = append(pods, engine.PodID{Namespace: "kube-system", Name: "dns"})
	if got, want := scenario.PodNames(pods), "api db-1 db-2 kube-system/dns web-7..web-10 x-01"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A snapshot file must contain the whole input of the engine: all fields are filled by reflection, written and read again. A new field fails
// here until Write and Read support it.
func TestSnapshotFileHoldsEveryField(t *testing.T) {
	t.Parallel()
	s := &engine.Snapshot{Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	full := parse(t, `
pool p time-zone=Europe/Zurich
type t cpu=1 price=1 attach=disk.example.com:25
node n pool=p type=t
storageclass fast wait zones=a,b
volume v zone=a class=fast claim=data attached=n
pod x cpu=1 disk=data scratch=fast
daemonset d cpu=1
pdb x max=1
namespace blue labels=team:a
service x
replicaset x
statefulset x
replicationcontroller x
deviceclass gpu resource=example.com/gpu
overlay half adjust=-50%
buffer room replicas=3 cpu=1
request train class=atomic count=4 cpu=1 provisioned=1m
gang train min=4 topology=zone disruption=all priority=3
yaml
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: web, namespace: default, uid: b, resourceVersion: "1"}
spec: {scalableRef: {kind: Deployment, name: web}, percentage: 20}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, uid: d, resourceVersion: "1"}
spec:
  replicas: 10
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {nodeSelector: {a: b}, containers: [{name: web, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: LimitRange
metadata: {name: l, namespace: default, uid: l, resourceVersion: "1"}
spec: {limits: [{type: Container, default: {cpu: "1"}, defaultRequest: {cpu: "1"}}]}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kata, uid: kata, resourceVersion: "1"}
handler: kata
overhead: {podFixed: {cpu: "1"}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: few, namespace: default, uid: q, resourceVersion: "1"}
spec: {hard: {pods: "5"}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c, namespace: default, uid: c, resourceVersion: "1"}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: t, namespace: default, uid: t, resourceVersion: "1"}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s, uid: s, resourceVersion: "1"}
spec: {driver: gpu.example.com, nodeName: node, pool: {name: node, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-0}]}
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: lvm.example.com, uid: l, resourceVersion: "1"}
spec: {storageCapacity: true}
---
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: left, namespace: default, uid: f, resourceVersion: "1"}
storageClassName: fast
capacity: 1Gi
nodeTopology: {matchLabels: {a: b}}
end
pod up scaled-up=gpu,10m
node-overhead-price 0.25
commitment plan amount=12.5 discount=0.3 elsewhere=2.5 end=2027-01-01T00:00:00Z type in (t,u)
commitment reserved machines=4 price=0.05 zone notin (c)
`).Snapshot
	v, from := reflect.ValueOf(s).Elem(), reflect.ValueOf(full).Elem()
	for i := range v.NumField() {
		switch v.Type().Field(i).Name {
		case "Now", "Classes", "EarlierPasses", "ExpectedPods":
			continue
		}
		// The API's own code encodes Kubernetes objects, so one of each kind is enough.
		if from.Field(i).IsZero() {
			t.Fatalf("Snapshot.%s: the notation cannot express it", v.Type().Field(i).Name)
		}
		v.Field(i).Set(from.Field(i))
	}
	s.Classes = []engine.Class{{}}
	fillValue(t, reflect.ValueOf(&s.Classes[0]).Elem())
	s.EarlierPasses = &engine.EarlierPasses{}
	fillValue(t, reflect.ValueOf(s.EarlierPasses).Elem())
	s.ExpectedPods = map[string]engine.ExpectedPod{"uid": {Node: "n", Since: s.Now, Refused: []string{"m"}}}
	s.Classes[0].Pools = nil // overlays compute it from the other fields, and it is not written
	s.Classes[0].Ref = *full.NodePools[0].Spec.Template.Spec.NodeClassRef
	opt := engine.Options{}
	for i := range reflect.TypeFor[engine.Options]().NumField() { // Stop is not written
		if v := reflect.ValueOf(&opt).Elem().Field(i); v.Kind() != reflect.Func {
			fillValue(t, v)
		}
	}

	var first, second bytes.Buffer
	if err := scenario.Write(&first, s, opt); err != nil {
		t.Fatal(err)
	}
	got := readBack(t, first.Bytes())
	if !reflect.DeepEqual(got.Options, opt) || !got.Snapshot.Now.Equal(s.Now) {
		t.Errorf("options %+v, time %s", got.Options, got.Snapshot.Now)
	}
	if err := scenario.Write(&second, got.Snapshot, got.Options); err != nil {
		t.Fatal(err)
	}
	if first.String() != second.String() {
		t.Errorf("written again: %s", firstDifference(first.String(), second.String()))
	}
	if !reflect.DeepEqual(got.Snapshot.EarlierPasses, s.EarlierPasses) {
		t.Errorf("earlier passes: got %+v, want %+v", got.Snapshot.EarlierPasses, s.EarlierPasses)
	}
	if got.Snapshot.NodeOverheadPrice != s.NodeOverheadPrice {
		t.Errorf("node overhead price %v, want %v", got.Snapshot.NodeOverheadPrice, s.NodeOverheadPrice)
	}
	if len(s.Commitments) != 2 || !reflect.DeepEqual(got.Snapshot.Commitments, s.Commitments) {
		t.Errorf("commitments %+v, want %+v", got.Snapshot.Commitments, s.Commitments)
	}
	if !reflect.DeepEqual(got.Snapshot.ScaleUps, s.ScaleUps) {
		t.Errorf("scale-ups: got %+v, want %+v", got.Snapshot.ScaleUps, s.ScaleUps)
	}
	if !reflect.DeepEqual(normal(got.Snapshot.Classes), normal(s.Classes)) {
		t.Errorf("classes: got %+v, want %+v", got.Snapshot.Classes, s.Classes)
	}
}

func firstDifference(want, got string) string {
	wants := strings.Split(want, "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(wants) || line != wants[i] {
			return fmt.Sprintf("line %d: got %q, want %q", i+1, line, wants[min(i, len(wants)-1)])
		}
	}
	return "none"
}

// normal gives quantities the form that they have after they were read.
func normal(classes []engine.Class) []engine.Class {
	for _, c := range classes {
		for _, t := range c.InstanceTypes {
			for _, list := range []corev1.ResourceList{t.Capacity, t.Overhead} {
				for name, q := range list {
					list[name] = resource.MustParse(q.String())
				}
			}
		}
	}
	return classes
}

func readBack(t *testing.T, text []byte) *scenario.Reading {
	t.Helper()
	documents, err := scenario.Documents(scenario.Source{Name: "snapshot.yaml", Data: text})
	if err != nil {
		t.Fatal(err)
	}
	r, err := scenario.Read(scenario.Input{Documents: documents})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fillValue sets every field to something other than its zero value.
func fillValue(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Interface().(type) {
	case corev1.ResourceList:
		v.Set(reflect.ValueOf(corev1.ResourceList{"cpu": resource.MustParse("3")}))
		return
	case metav1.Time: // in JSON it has whole seconds, and it comes back in the local zone
		v.Set(reflect.ValueOf(metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Local())))
		return
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("word")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint64:
		v.SetUint(1<<63 + 7) // more than a float64 holds
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(0.25)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillValue(t, v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillValue(t, key)
		fillValue(t, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			fillValue(t, v.Field(i))
		}
	default:
		t.Fatalf("%s: teach this test to fill it", v.Type())
	}
}

func TestRandomScenariosCanBeReadAndDependOnTheSeedOnly(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		size := scenario.Size{Topology: seed%2 == 0}
		first := scenario.RandomText(seed, size)
		if second := scenario.RandomText(seed, size); first != second {
			t.Errorf("seed %d: two texts", seed)
		}
		if s := scenario.Random(seed, size); len(s.Pods) < 30 {
			t.Errorf("seed %d: %d pods", seed, len(s.Pods))
		}
	}
}

// A feature that no random scenario has would not be tested by any law.
func TestRandomScenariosHaveEverythingThatTiesPods(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for seed := range uint64(60) {
		all.WriteString(scenario.RandomText(seed, scenario.Size{Topology: true}))
		if s := scenario.Random(seed, scenario.Size{Topology: true}); len(s.PersistentVolumeClaims) == 0 || len(s.Namespaces) == 0 {
			t.Errorf("seed %d: no volumes or no namespaces", seed)
		}
	}
	for _, word := range strings.Fields(`spread=zone skew= min= soft affinity-policy= taints-policy= match-keys= mismatch-keys= apart=hostname
		apart=zone weight= together= all-ns ns-labels= ns=blue port= @10.0.0.1 disk= scratch= rwop lost priority= prefer= reserved= slots= attach= owner=`) {
		if !strings.Contains(all.String(), word) {
			t.Errorf("no random scenario has %s", word)
		}
	}
}

// A snapshot file gives the engine the same cluster again.
func TestRandomClustersSurviveBeingWritten(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		s := scenario.Random(seed, scenario.Size{Topology: true})
		var first, second bytes.Buffer
		if err := scenario.Write(&first, s, engine.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := scenario.Write(&second, readBack(t, first.Bytes()).Snapshot, engine.Options{}); err != nil {
			t.Fatal(err)
		}
		if first.String() != second.String() {
			t.Errorf("seed %d: written again: %s", seed, firstDifference(first.String(), second.String()))
		}
	}
}

func TestAScenarioWhoseExpectationsHoldComesBackUnchanged(t *testing.T) {
	t.Parallel()
	text := "# story\npool p\n\ncheck\n----\nnothing to check\n\nwait 5m\ncheck\n----\nnothing to check\n"
	if got := parse(t, text).Run(); got != text {
		t.Errorf("got:\n%s", got)
	}
	bare := "pool p\ncheck\n"
	if got, want := parse(t, bare).Run(), "pool p\ncheck\n----\nnothing to check\n"; got != want {
		t.Errorf("got:\n%s", got)
	}
}

// If a user's change of a snapshot file is wrong, the error names the field.
func TestACatalogThatCannotBeReadNamesTheField(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"earlierPasses: 5":                       "earlierPasses cannot be a value of this kind: number",
		"earlierPasses: {look: {machines: [a]}}": "earlierPasses.look.machines cannot be a value of this kind: array",
		"earlierPasses: {look: {at: yesterday}}": `cannot parse "yesterday"`,
		"classes: {}":                            "classes cannot be a value of this kind: object",
	} {
		documents, err := scenario.Documents(scenario.Source{Name: "s.yaml", Data: []byte("apiVersion: tenon.sh/v1alpha1\nkind: Catalog\n" + text)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = scenario.Read(scenario.Input{Documents: documents}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "s.yaml, document 1") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
