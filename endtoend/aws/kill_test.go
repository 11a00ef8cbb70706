package aws_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "tenon.sh/api/v1"
)

// variable is a number from the environment.
func variable(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// victims is how many pods wait in each round: each needs a machine of its own.
const victims = 12

// TestAControllerThatIsKilledWhileMachinesStartLosesAndDoublesNone kills the controller with SIGKILL at a moment that is
// drawn, in turn after claims are written, launch templates made, a fleet asked for, machines written down. Two minutes later
// each claim has a machine, and no other runs. TENON_KILLS says how often, TENON_KILL_SEED begins with other moments.
func TestAControllerThatIsKilledWhileMachinesStartLosesAndDoublesNone(t *testing.T) {
	seed := uint64(variable(t, "TENON_KILL_SEED", 1))
	for i := range variable(t, "TENON_KILLS", 4) {
		draw := rand.New(rand.NewPCG(seed, uint64(i)))
		t.Run(fmt.Sprintf("kill %d", i+1), func(t *testing.T) { killed(t, i, draw) })
	}
}

func killed(t *testing.T, round int, draw *rand.Rand) {
	w := newWorld(t)
	w.account.Hide(round % 2 * 2) // EC2 may show late what it has started
	first := w.start()
	w.applyFile("examples/aws/nodepool.yaml")
	w.applyFile("examples/inflate/deployment.yaml")
	w.must(w.Patch(w, pool("default"), merge(`{"spec":{"template":{"spec":{"requirements":[
		{"key":"node.kubernetes.io/instance-type","operator":"In","values":["m5.large","c5.large","m6i.large"]}]}},"disruption":{"consolidateAfter":"Never"}}}`)))
	w.mustBeReady("default")
	w.scale("inflate", victims)
	moments := []struct {
		what string
		has  func() bool
	}{
		{"claims are written", func() bool { return len(w.claims()) > 0 }},
		{"launch templates are made", func() bool { return len(w.account.Calls("ec2:CreateLaunchTemplate")) > 0 }},
		{"a fleet is asked for", func() bool { return len(w.account.Calls("ec2:CreateFleet")) > 0 }},
		{"machines are written down", func() bool {
			return slices.ContainsFunc(w.claims(), func(c v1.NodeClaim) bool { return c.Status.ProviderID != "" })
		}},
	}
	moment := moments[round%len(moments)]
	for deadline := time.Now().Add(time.Minute); !moment.has(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in a minute no %s", moment.what)
		}
	}
	after := time.Duration(draw.Float64() * 300 * float64(time.Millisecond))
	time.Sleep(after) // the moment of the kill is what this test varies
	first.end(syscall.SIGKILL)
	at := time.Now()
	unwritten := 0
	for _, c := range w.claims() {
		if c.Status.ProviderID == "" {
			unwritten++
		}
	}
	claims, machines := len(w.claims()), len(w.observer.Machines())
	w.start()
	w.until(2*time.Minute, func() (string, bool) {
		problem := w.unequal()
		return problem, problem == "" && len(w.running()) == victims
	})
	t.Logf("killed %s after %s: %d claims, %d without a machine's name, %d machines; equal %s later, %d machines were stopped", after.Round(time.Millisecond), moment.what,
		claims, unwritten, machines, time.Since(at).Round(time.Second), len(w.account.Calls("ec2:TerminateInstances")))
	for until := at.Add(35 * time.Second); time.Now().Before(until); time.Sleep(time.Second) { // what is late comes within the grace of orphans
		if problem := w.unequal(); problem != "" {
			t.Fatal(problem)
		}
	}
	if n := len(w.claims()); n != victims {
		t.Errorf("%d claims for %d pods that fill a machine each", n, victims)
	}
}

// unequal says how claims and machines differ, "" if each claim has a machine of its own and no other runs.
func (w *world) unequal() string {
	w.Helper()
	machines := w.observer.Machines()
	var problems []string
	for _, c := range w.claims() {
		id := idOf(c.Status.ProviderID)
		if _, runs := machines[id]; !runs {
			problems = append(problems, fmt.Sprintf("claim %s has machine %q, which does not run or is another's", c.Name, id))
		}
		delete(machines, id)
	}
	for id := range machines {
		problems = append(problems, fmt.Sprintf("machine %s belongs to no claim", id))
	}
	slices.Sort(problems)
	return strings.Join(problems, "; ")
}
