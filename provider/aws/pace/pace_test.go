package pace_test

import (
	"context"
	"testing"
	"time"

	"tenon.sh/provider/aws/pace"
)

func TestCallsPassUntilTheBucketIsEmpty(t *testing.T) {
	t.Parallel()
	p := pace.New()
	for range p.Left(pace.Writes) {
		if err := p.Wait(t.Context(), pace.Writes, 1); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if p.Wait(ctx, pace.Writes, 10) == nil {
		t.Error("ten more calls pass at once")
	}
	if err := p.Wait(t.Context(), pace.Reads, 1); err != nil {
		t.Errorf("another class waits as well: %v", err)
	}
}

func TestAComplaintSlowsDownItsClass(t *testing.T) {
	t.Parallel()
	p := pace.New()
	p.Complained(pace.Tags)
	if left := p.Left(pace.Tags); left > 1 {
		t.Errorf("%d calls are left that EC2 would refuse", left)
	}
	if p.Left(pace.Reads) < 50 {
		t.Error("another class is slowed down as well")
	}
}

func TestWhatIsMoreThanABucketHoldsIsLetThrough(t *testing.T) {
	t.Parallel()
	if err := pace.New().Wait(t.Context(), pace.Machines, 5000); err != nil {
		t.Error(err)
	}
}

func TestEveryOperationHasAClass(t *testing.T) {
	t.Parallel()
	for operation, want := range map[string]pace.Class{
		"DescribeInstances": pace.Reads, "CreateFleet": pace.Writes, "CreateLaunchTemplate": pace.Writes, "CreateTags": pace.Tags, "TerminateInstances": pace.Terminates,
	} {
		if got := pace.ClassOf(operation); got != want {
			t.Errorf("%s is one of %s, want %s", operation, got, want)
		}
	}
}
