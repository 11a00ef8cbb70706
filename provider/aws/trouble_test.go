package aws_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider"
	"tenon.sh/provider/aws"
	"tenon.sh/provider/aws/awstest"
)

// everything configures a provider that makes all its calls.
func everything(c *aws.Config) { c.InterruptionQueue, c.EnableZonalShift = "interruptions", true }

// tendClass acts like the controllers for a class: it resolves the class and writes its status.
func (w *world) tendClass(name string) *awsv1.EC2NodeClass {
	w.Helper()
	c := &awsv1.EC2NodeClass{}
	w.must(w.client.Get(w.Context(), nameOf(name), c))
	if c.DeletionTimestamp == nil {
		_, _ = w.provider.Resolve(w.Context(), seen(c)) // the conditions contain the problems
		w.must(w.client.Status().Update(w.Context(), c))
	}
	return c
}

// tend acts like the controllers for a minute: it resolves classes, launches claims, acknowledges notices, and stops machines of deleted
// claims and machines without a claim. It ignores errors until the next minute.
func (w *world) tend(class string) {
	w.Helper()
	c := w.tendClass(class)
	for _, source := range w.provider.Sources() {
		list, _ := source.Notices(w.Context())
		for _, n := range list {
			_ = source.Acknowledge(w.Context(), n)
		}
	}
	var claims v1.NodeClaimList
	w.must(w.client.List(w.Context(), &claims))
	var list []*v1.NodeClaim
	for i := range claims.Items {
		claim := &claims.Items[i]
		switch {
		case claim.DeletionTimestamp != nil:
			if err := w.provider.Terminate(w.Context(), engine.MachineID(claim.Status.ProviderID)); errors.Is(err, provider.ErrGone) {
				claim.Finalizers = nil
				w.must(w.client.Update(w.Context(), claim))
				continue
			}
		case claim.Status.ProviderID == "":
			if m, err := w.provider.Launch(w.Context(), claim, seen(c)); err == nil {
				w.record(claim, m)
				w.node(claim)
				claim = w.stored(claim)
			}
		}
		list = append(list, claim)
	}
	if machines, err := w.provider.Machines(w.Context()); err == nil {
		for _, orphan := range lifecycle.Orphans(list, nil, machines, "", w.clock.Now()) {
			_ = w.provider.Terminate(w.Context(), orphan.Machine.ID)
		}
	}
	_ = w.provider.Clean(w.Context())
	w.clock.Step(time.Minute)
}

// until calls tend until done returns true, at most for half an hour.
func (w *world) until(what, class string, done func() bool) {
	w.Helper()
	for range 30 {
		if done() {
			return
		}
		w.tend(class)
	}
	w.Errorf("after half an hour not: %s", what)
}

// aLife creates and deletes a class and two machines. It calls trouble at the beginning, and again at the end.
func (w *world) aLife(trouble func()) {
	w.Helper()
	queue, read := w.account.NewQueue("interruptions"), w.deleted()
	w.account.SetLaunchTime(w.clock.Now())
	w.account.SetPlacementGroups(awstest.PlacementGroup{ID: "pg-1", Name: "racks", Strategy: "cluster"})
	w.class("general", func(c *awsv1.EC2NodeClass) {
		c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: awsv1.Tags{"use": "yes"}}}
		c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "racks"}
	})
	trouble()
	var claims []*v1.NodeClaim
	for _, name := range []string{"a", "b"} {
		claim := w.claim(name, &awsv1.EC2NodeClass{}, in(corev1.LabelInstanceTypeStable, "m5.large"), in(v1.CapacityTypeLabelKey, "on-demand"))
		claim.Spec.NodeClassRef.Name, claim.Finalizers = "general", []string{v1.TerminationFinalizer}
		w.must(w.client.Update(w.Context(), claim))
		claims = append(claims, claim)
	}
	w.account.Send(queue, "garbage", about("EC2 Spot Instance Interruption Warning", "i-0123"))
	for range 3 {
		w.tend("general")
	}
	w.account.Heal()
	w.until("two claims have a machine each", "general", func() bool {
		return w.stored(claims[0]).Status.ProviderID != "" && w.stored(claims[1]).Status.ProviderID != "" && len(w.account.Machines()) == 2
	})
	w.until("the machines are tagged", "general", func() bool { return w.stored(claims[0]).Annotations[awsv1.TaggedAnnotationKey] == "true" })
	w.until("the queue is read", "general", func() bool { return w.deleted() >= read+2 })
	w.wantOneEach()
	if c := w.tendClass("general"); !v1.IsTrue(c, v1.ConditionReady) {
		w.Errorf("the class is not ready: %+v", c.Status.Conditions)
	}
	trouble()
	for _, claim := range claims {
		w.must(w.client.Delete(w.Context(), claim))
	}
	c := &awsv1.EC2NodeClass{}
	w.must(w.client.Get(w.Context(), nameOf("general"), c))
	w.must(w.client.Delete(w.Context(), c))
	for range 3 {
		if err := w.client.Get(w.Context(), nameOf("general"), c); err == nil {
			w.tend("general")
		}
	}
	w.account.Heal()
	w.until("the class is gone", "general", func() bool { return apierrors.IsNotFound(w.client.Get(w.Context(), nameOf("general"), c)) })
	w.must(w.client.DeleteAllOf(w.Context(), &corev1.Node{}))
	if machines, templates, profiles := len(w.account.Machines()), w.templates(), w.profiles(); machines+templates+profiles > 0 {
		w.Errorf("%d machines, %d launch templates and %d instance profiles are left", machines, templates, profiles)
	}
}

// actions returns the calls that the provider makes during aLife.
func actions(t *testing.T) (out []string) {
	w := newWorld(t, everything)
	before := len(w.account.Calls(""))
	w.aLife(func() {})
	for _, call := range w.account.Calls("")[before:] {
		if call.Action != "sqs:CreateQueue" && call.Action != "sqs:SendMessage" {
			out = append(out, call.Action)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// If any call fails for some minutes, everything continues afterwards, and nothing is left behind. Each call fails in two ways in turn, so
// that all ways occur.
func TestTroubleWithAnyCallPasses(t *testing.T) {
	t.Parallel()
	faults := []awstest.Fault{
		{Status: 500, Code: "InternalError", Message: "An internal error has occurred"},
		{Status: -1}, // no answer
		{Status: -1, Done: true},
		{Status: 400, Code: "ExpiredToken", Message: "The provided token has expired"},
		{Status: 403, Code: "AccessDenied", Message: "not for now"},
		{Status: 503, Code: "ServiceUnavailable"},
	}
	list := actions(t)
	if len(list) < 25 {
		t.Errorf("only %d calls: %s", len(list), strings.Join(list, " "))
	}
	const accounts = 4 // an account takes longer to create than a life
	for n := range accounts {
		t.Run(fmt.Sprintf("account %d", n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, everything)
			for i := n; i < len(list); i += accounts {
				action, next := list[i], i/accounts+n
				w.restart() // a provider without memory must ask
				w.aLife(func() {
					fault := faults[next%len(faults)]
					next++
					if strings.HasPrefix(action, "ec2:") && fault.Code == "AccessDenied" {
						fault.Code = "UnauthorizedOperation"
					}
					w.account.Fail(action, fault)
				})
				if t.Failed() {
					t.Fatalf("that was with %s", action)
				}
			}
		})
	}
}
