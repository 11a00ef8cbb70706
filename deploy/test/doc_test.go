// Package charttest holds the tests of the Helm charts. Helm's library renders them, a real API server checks them, they are installed over a
// release of Karpenter's, and a controller runs with exactly the rights that they grant. Helm's library has many dependencies, so the tests are a
// module of their own.
package charttest

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"tenon.sh/playground"
	"tenon.sh/playground/playgroundtest"
	"tenon.sh/provider/aws/awstest"
)

func TestMain(m *testing.M) {
	// The loggers of the libraries belong to the process.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	// What Kubernetes serves only where it is asked to, and guides have objects of.
	os.Exit(playgroundtest.RunWith(withAWS{m}, playground.Config{
		FeatureGates: "GenericWorkload=true,GangScheduling=true", APIs: "scheduling.k8s.io/v1alpha2=true",
	}))
}

// withAWS runs the tests with an AWS for those that ask.
type withAWS struct{ *testing.M }

func (w withAWS) Run() int { return awstest.Run(w.M) }
