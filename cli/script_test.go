package cli_test

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"tenon.sh/cli"
	"tenon.sh/playground/playgroundtest"
)

func TestMain(m *testing.M) {
	testscript.Main(withControlPlane{m}, map[string]func(){"tenon": func() { os.Exit(cli.Main()) }})
}

// withControlPlane runs the tests with a control plane for the tests that need one.
type withControlPlane struct{ *testing.M }

func (m withControlPlane) Run() int {
	// The libraries' loggers are global, so tests with a controller in this process must not set them.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	return playgroundtest.Run(m.M)
}

// Each script is a page of the manual: the user's input, and its result.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", env.WorkDir+"/no-kubeconfig")
			return nil
		},
	})
}
