package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider"
	"tenon.sh/provider/catalog"
	"tenon.sh/provider/simulated"
)

// winding is a winder over a cluster with some objects. Its cloud has no machine.
func winding(t *testing.T, keep bool, objects ...client.Object) (*winder, *bytes.Buffer) {
	t.Helper()
	types, err := catalog.ByName(DefaultControllerOptions().Catalog)
	if err != nil {
		t.Fatal(err)
	}
	cloud, err := simulated.NewCloud(simulated.Config{Clock: clock.RealClock{}, Catalog: types})
	if err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	w := &winder{
		options: &uninstallOptions{controller: ControllerOptions{CloudProvider: cloudKWOK}, keep: keep, timeout: time.Hour},
		stock:   stocked(objects...), in: &installation{}, out: newTerminal(out), began: time.Now(),
	}
	w.forget()
	var p provider.Provider = simulated.New(cloud)
	w.cloud.Store(&p)
	return w, out
}

// toTheEnd takes steps until nothing is left, and returns the final text.
func (w *winder) toTheEnd(t *testing.T) string {
	t.Helper()
	for range 10 {
		done, err := w.step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if done {
			return strings.Join(w.options.ending(w.in, w, bill{}), "\n")
		}
	}
	t.Fatalf("after 10 steps there is still: %s", w.left())
	return ""
}

func claimOf(kind, name, id string) *v1.NodeClaim {
	c := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Finalizers: []string{v1.TerminationFinalizer}}}
	c.Spec.NodeClassRef = &v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: kind, Name: "default"}
	c.Status.ProviderID = id
	return c
}

func nodeOf(name, id string, labels map[string]string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Finalizers: []string{v1.TerminationFinalizer}}}
	n.Spec.ProviderID = id
	return n
}

func TestANodeWithoutAProviderIDIsLetGoAndNamed(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		w, _ := winding(t, keep, nodeOf("nobody", "", map[string]string{v1.NodePoolLabelKey: "general"}))
		text := w.toTheEnd(t)
		if !strings.Contains(text, "Without a provider ID, so that nobody can tell which machine it is, and let go: 1 Node: nobody.") {
			t.Errorf("keep %v: said\n%s", keep, text)
		}
		var n corev1.Node
		if err := w.stock.Get(t.Context(), client.ObjectKey{Name: "nobody"}, &n); err != nil || len(n.Finalizers) > 0 {
			t.Errorf("keep %v: finalizers %q, %v", keep, n.Finalizers, err)
		}
	}
}

// Machines that join after the controller's end keep their taint.
func TestMachinesThatJoinLaterAreNamedWithWhatToDo(t *testing.T) {
	t.Parallel()
	unnamed := nodeOf("unnamed", "", nil) // the cloud's controller has not set its provider ID yet
	unnamed.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1.GroupVersion.String(), Kind: "NodeClaim", Name: "unnamed", UID: "unnamed"}}
	w, _ := winding(t, true, claimOf("KWOKNodeClass", "here", "kwok://here"), claimOf("KWOKNodeClass", "late", "kwok://late"), claimOf("KWOKNodeClass", "unnamed", "kwok://unnamed"),
		nodeOf("here", "kwok://here", nil), unnamed)
	text := w.toTheEnd(t)
	if !strings.Contains(text, "Not in the cluster yet: 1 machine: kwok://late. ") || !strings.Contains(text, "kubectl taint node NAME karpenter.sh/unregistered-") {
		t.Errorf("said\n%s", text)
	}
}

// The controller runs until its started machines have joined. Machines that it starts meanwhile do not prolong the wait.
func TestKeepingMachinesWaitsForThoseThatAreJoining(t *testing.T) {
	t.Parallel()
	w, out := winding(t, true, claimOf("KWOKNodeClass", "joins", "kwok://joins"), claimOf("KWOKNodeClass", "launching", ""))
	w.in.holder = "controller"
	w.out = newTerminal(writer(func(text string) { // from this moment on it waits
		out.WriteString(text)
		var c v1.NodeClaim
		if err := w.stock.Get(t.Context(), client.ObjectKey{Name: "joins"}, &c); err != nil {
			t.Error(err)
		}
		v1.SetCondition(&c, v1.ConditionRegistered, metav1.ConditionTrue, "", "", time.Now())
		if err := w.stock.Status().Update(t.Context(), &c); err != nil {
			t.Error(err)
		}
		if err := w.stock.Create(t.Context(), claimOf("KWOKNodeClass", "next", "kwok://next")); err != nil {
			t.Error(err)
		}
	}))
	if err := w.awaitJoining(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "waiting up to 5m0s for machines that have not joined the cluster yet: 1 NodeClaim: joins\n"; out.String() != want {
		t.Errorf("said %q, want %q", out, want)
	}
}

// Without a controller no nodes are registered, and the wait for a machine that does not join is bounded.
func TestKeepingMachinesDoesNotWaitInVainForThoseThatAreJoining(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*winder){
		"no controller": func(*winder) {},
		"too late":      func(w *winder) { w.in.holder, w.options.timeout = "controller", time.Nanosecond },
	} {
		w, out := winding(t, true, claimOf("KWOKNodeClass", "joins", "kwok://joins"))
		change(w)
		if err := w.awaitJoining(t.Context()); err != nil || out.Len() > 0 {
			t.Errorf("%s: %v, said %q", name, err, out)
		}
	}
}

// Objects that are not the autoscaler's are left alone, and the final text counts them.
func TestTheEndingCountsWhatWasLeftAlone(t *testing.T) {
	t.Parallel()
	held := claimOf("KWOKNodeClass", "held", "kwok://held")
	held.Finalizers = []string{"example.com/hold"}
	theirs := map[string]string{"eks.amazonaws.com/nodeclass": "default"}
	foreign := func() []client.Object {
		return []client.Object{claimOf("NodeClass", "auto", "aws:///a/i-1"), nodeOf("auto", "aws:///a/i-1", theirs), nodeOf("bare", "aws:///a/i-2", theirs)}
	}
	const nothing = "No NodePool, NodeClaim, node class or finalizer of the autoscaler is left"
	for name, c := range map[string]struct {
		keep    bool
		objects []client.Object
		want    string
	}{
		"nothing of others":           {false, nil, nothing + ", and no machine."},
		"machines of others":          {false, foreign(), nothing + ", and no machine, except 2 machines of another provider, left alone."},
		"machines of others and kept": {true, foreign(), nothing + ", except 2 machines of another provider, left alone."},
		"what others hold":            {false, []client.Object{held}, nothing + ", and no machine, except 1 object that others hold, left alone."},
	} {
		w, _ := winding(t, c.keep, c.objects...)
		for _, o := range c.objects {
			if o == held {
				if err := w.stock.Delete(t.Context(), held); err != nil {
					t.Fatal(err)
				}
			}
		}
		if text := w.toTheEnd(t); !strings.HasPrefix(text, c.want+"\n") {
			t.Errorf("%s: said\n%s\nwant\n%s", name, text, c.want)
		}
	}
}

// writer is an io.Writer.
type writer func(string)

func (w writer) Write(p []byte) (int, error) {
	w(string(slices.Clone(p)))
	return len(p), nil
}
