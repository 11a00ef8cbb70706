package scenariotest

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/enginetest"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/scenario"
)

// Seeds is the number of random clusters on which laws are tested. A broken law reports its seed. The cluster is scenario.RandomText(seed,
// scenario.Size{Topology: seed%2 == 1}): every second one has rules between pods.
const Seeds = 100

// EachRandom calls law with the random snapshots of the seeds.
func EachRandom(t *testing.T, law func(t *testing.T, seed uint64, s *engine.Snapshot)) {
	t.Helper()
	for seed := range enginetest.Draws(Seeds) {
		law(t, seed, scenario.Random(seed, scenario.Size{Topology: seed%2 == 1}))
	}
}

// Text returns the whole plan as JSON.
func Text(t *testing.T, plan *engine.Plan) string {
	t.Helper()
	out, err := json.MarshalIndent(plan, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// FirstDifference returns the lines around the first difference of two texts.
func FirstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	part := func(lines []string) string {
		return strings.Join(lines[min(max(0, i-6), len(lines)):min(len(lines), i+6)], "\n")
	}
	return part(a) + "\nnot\n" + part(b)
}

// Shuffle returns the same cluster with all its lists in another order.
func Shuffle(s *engine.Snapshot, seed uint64) *engine.Snapshot {
	r := rand.New(rand.NewPCG(seed, 1))
	out := *s
	fields := reflect.ValueOf(&out).Elem()
	for i := range fields.NumField() {
		if f := fields.Field(i); f.Kind() == reflect.Slice {
			list := reflect.MakeSlice(f.Type(), f.Len(), f.Len())
			reflect.Copy(list, f)
			r.Shuffle(f.Len(), reflect.Swapper(list.Interface()))
			f.Set(list)
		}
	}
	for i := range out.Classes {
		types := shuffled(r, out.Classes[i].InstanceTypes)
		for j := range types {
			types[j].Offerings = shuffled(r, types[j].Offerings)
		}
		out.Classes[i].InstanceTypes = types
	}
	return &out
}

func shuffled[T any](r *rand.Rand, list []T) []T {
	list = slices.Clone(list)
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// Said returns the printed plan without buffers.
func Said(plan *engine.Plan) string {
	out := *plan
	out.Buffers = nil
	return scenario.Print(&out)
}

// Drifting returns the snapshot with every second machine drifted, and without pending pods.
func Drifting(s *engine.Snapshot) *engine.Snapshot {
	out := *s
	out.NodeClaims, out.Pods = slices.Clone(s.NodeClaims), nil
	for i, c := range out.NodeClaims {
		if i%2 == 0 {
			c = c.DeepCopy()
			v1.SetCondition(c, v1.ConditionDrifted, metav1.ConditionTrue, lifecycle.PoolDrifted, "", s.Now.Add(-time.Hour))
			out.NodeClaims[i] = c
		}
	}
	for _, p := range s.Pods {
		if p.Spec.NodeName != "" {
			out.Pods = append(out.Pods, p)
		}
	}
	return &out
}
