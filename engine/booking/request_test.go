package booking_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/booking"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
	"tenon.sh/scenario/scenariotest"
)

// An author of many large requests cannot prevent plans for other pods, nor fill the memory: the newest requests wait.
func TestRequestsOfTooManyPodsWaitForOlderOnes(t *testing.T) {
	t.Parallel()
	text := "pool general\n"
	for i := range 6 {
		text += fmt.Sprintf("request r%d count=10000 age=%dm\n", i, 10-i)
	}
	file, err := scenario.Parse(text + "request small count=1\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range booking.Resolve(file.Snapshot) {
		served := r.Name() < "default/r5"
		if r.Wants(file.Snapshot.Now) != served || r.Waits == served || served == strings.Contains(r.Message, "older requests are for 50000 pods") {
			t.Errorf("%s: wants room %t, waits %t: %q", r.Name(), r.Wants(file.Snapshot.Now), r.Waits, r.Message)
		}
	}
}

// The answer to a request follows from its conditions. Once they are written, the next answer is the same, without another write.
func TestAnswersToRequestsLast(t *testing.T) {
	t.Parallel()
	met := map[engine.RequestProgress]int{}
	for _, path := range scenariotest.Files(t, "..") {
		f := scenariotest.Load(t, path)
		if len(f.Snapshot.ProvisioningRequests) == 0 {
			continue
		}
		s := *f.Snapshot
		first := provisioning.Plan(&s, f.Options, nil)
		s.ProvisioningRequests = slices.Clone(s.ProvisioningRequests)
		for i, o := range s.ProvisioningRequests {
			for _, room := range first.ProvisioningRequests {
				if room.Namespace == o.Namespace && room.Name == o.Name && room.Status != nil {
					s.ProvisioningRequests[i] = o.DeepCopy()
					s.ProvisioningRequests[i].Status = *room.Status
				}
			}
		}
		second := provisioning.Plan(&s, f.Options, nil)
		for i, room := range first.ProvisioningRequests {
			met[room.Answer.Progress]++
			if again := second.ProvisioningRequests[i]; again.Answer.Progress != room.Answer.Progress {
				t.Errorf("%s: %s/%s: %+v, then %+v", path, room.Namespace, room.Name, room.Answer, again.Answer)
			}
			if room.Answer.Progress == "" || room.Answer.Reason == "" {
				t.Errorf("%s: %s/%s: %+v", path, room.Namespace, room.Name, room.Answer)
			}
		}
	}
	for _, p := range []engine.RequestProgress{engine.RequestWaits, engine.RequestStarts, engine.RequestProvisioned, engine.RequestConsumed, engine.RequestExpired, engine.RequestFailed} {
		if met[p] == 0 {
			t.Errorf("no scenario has a request that is %s", p)
		}
	}
}
