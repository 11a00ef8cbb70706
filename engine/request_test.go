package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"tenon.sh/engine/booking"
	"tenon.sh/scenario"
)

// Who makes many large requests keeps plans for others neither from being made nor in memory: the newest wait.
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
