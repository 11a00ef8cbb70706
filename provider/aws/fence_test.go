package aws_test

import (
	"context"
	"errors"
	"testing"

	"tenon.sh/provider/aws"
)

// Another process may lead by the time of a call that has waited for others.
func TestWhoDoesNotLeadStartsAndStopsNoMachine(t *testing.T) {
	t.Parallel()
	var over error
	w := newWorld(t, func(c *aws.Config) { c.May = func(string) error { return over } })
	class := w.resolved("general", nil)
	m := w.launch(w.claim("a", class), class)
	launches := len(w.account.Calls("ec2:CreateFleet"))
	over = context.Canceled
	if _, err := w.provider.Launch(t.Context(), w.claim("b", class), seen(class)); !errors.Is(err, over) {
		t.Errorf("the launch says %v", err)
	}
	if err := w.provider.Terminate(t.Context(), m.ID); !errors.Is(err, over) {
		t.Errorf("stopping says %v", err)
	}
	if n := len(w.account.Calls("ec2:CreateFleet")); n != launches || len(w.account.Machines()) != 1 {
		t.Errorf("%d calls of CreateFleet instead of %d, %d machines instead of one", n, launches, len(w.account.Machines()))
	}
}
