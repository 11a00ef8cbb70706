package playgroundtest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	"tenon.sh/playground"
	"tenon.sh/playground/playgroundtest"
)

func TestMain(m *testing.M) {
	os.Exit(playgroundtest.RunWith(m, playground.Config{Components: []string{playground.APIServer}}))
}

func TestAllTestsShareOneControlPlane(t *testing.T) {
	p := playgroundtest.Get(t)
	if playgroundtest.Get(t) != p {
		t.Error("a second call gives another control plane")
	}
	if _, err := kubernetes.NewForConfigOrDie(p.RESTConfig()).Discovery().ServerVersion(); err != nil {
		t.Error(err)
	}
}

func TestAMissingBinaryFailsTheTestAndSaysHowToBuildIt(t *testing.T) {
	again := exec.Command(os.Args[0], "-test.run=^TestAllTestsShareOneControlPlane$", "-test.v")
	again.Env = append(os.Environ(), "TENON_CONTROLPLANE=/none")
	output, err := again.CombinedOutput()
	if err == nil {
		t.Errorf("the test passes without a binary")
	}
	for _, want := range []string{"--- FAIL: TestAllTestsShareOneControlPlane", "make controlplane", "/none"} {
		if !strings.Contains(string(output), want) {
			t.Errorf("the output does not say %q:\n%s", want, output)
		}
	}
}
