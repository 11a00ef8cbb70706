package report_test

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/report"
)

// answering is a cloud that answers every launch with an error.
type answering struct {
	provider.Provider
	err error
}

func (a answering) Name() string { return "answering" }

func (a answering) Launch(context.Context, *v1.NodeClaim, provider.Class) (engine.Machine, error) {
	return engine.Machine{}, a.err
}

// The alert TenonLaunchesFail counts failed launches: a machine that is being made is none.
func TestAMachineThatIsBeingMadeIsNoFailedCall(t *testing.T) {
	t.Parallel()
	for _, trial := range []struct {
		err  error
		want float64
	}{
		{&provider.PendingError{What: "machine a is being made"}, 0},
		{errors.New("access denied"), 1},
	} {
		registry := prometheus.NewRegistry()
		cloud := report.Measured{Provider: answering{err: trial.err}, Metrics: report.NewMetrics(registry, "test"), Clock: clock.RealClock{}}
		if _, err := cloud.Launch(t.Context(), &v1.NodeClaim{}, provider.Class{}); !errors.Is(err, trial.err) {
			t.Errorf("the launch returns %v, want %v", err, trial.err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		counted := 0.0
		for _, f := range families {
			if f.GetName() == "karpenter_cloudprovider_errors_total" {
				for _, m := range f.GetMetric() {
					counted += m.GetCounter().GetValue()
				}
			}
		}
		if counted != trial.want {
			t.Errorf("%v counts as %v failed calls, want %v", trial.err, counted, trial.want)
		}
	}
}
