package endtoend_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/cli"
	"tenon.sh/deploy"
)

// notAlways are rights that a life of machines in which nothing goes wrong may do without, and what for they are.
var notAlways = map[string]string{
	"create csinodes.storage.k8s.io":                   "a fault says how many volumes the machines of a simulated cloud take",
	"create resourceslices.resource.k8s.io":            "drivers publish devices of the machines of a simulated cloud",
	"create leases.coordination.k8s.io":                "the first leader makes the Lease",
	"create subjectaccessreviews.authorization.k8s.io": "somebody asks for the catalog or the dashboard: whether they may",
	"create tokenreviews.authentication.k8s.io":        "somebody asks for the catalog or the dashboard: who they are",
	"delete pods":                                       "a pod outstays the grace period of its node",
	"patch nodes/status":                                "a fault says when the devices of machines of a simulated cloud are there",
	"get kwoknodeclasses.karpenter.kwok.sh":             "a simulated cloud takes in the machines that it finds when it starts",
	"get nodeclaims.karpenter.sh":                       "somebody else wrote to the claim first, or the watch does not show it in time",
	"get nodes":                                         "somebody else wrote to the node first, or the watch is behind",
	"get persistentvolumeclaims":                        "pods with volumes leave a node",
	"patch capacitybuffers/status.autoscaling.x-k8s.io": "there is one: what has become of it is said in its status",
	"patch events":                                      "an event comes again, after two minutes at the earliest, and is counted up",
	"patch kwoknodeclasses/status.karpenter.kwok.sh":    "a class cannot be used",
	"patch nodeoverlays/status.karpenter.sh":            "there is one: whether it is in force is said in its status",
	"list podgroups.scheduling.k8s.io":                  "the API server serves PodGroups",
	"watch podgroups.scheduling.k8s.io":                 "the same",
	"update nodeclaims/finalizers.karpenter.sh":         "the API server has the plugin OwnerReferencesPermissionEnforcement: nodes block the deletion of their claim",
	"update nodepools/finalizers.karpenter.sh":          "the same: claims block the deletion of their pool",
}

// TestRightsAreThoseThatAreUsed takes machines through their life, and compares what the controller asked for, by the API
// server's audit log, with what the manifests grant.
func TestRightsAreThoseThatAreUsed(t *testing.T) {
	w := newWorld(t)
	before := w.audited()
	w.start()
	w.pool("rights", func(p *v1.NodePool) { p.Spec.Disruption.ConsolidateAfter = v1.DurationOf(0) })
	w.deploy("rights", 4, "900m", "64Mi")
	w.running(4, 2*time.Minute)
	w.must(w.DeleteAllOf(w, &v1.NodeClaim{})) // while pods run on them
	w.until(2*time.Minute, func() (bool, string) {
		left := slices.DeleteFunc(w.claims(), func(c v1.NodeClaim) bool { return c.DeletionTimestamp == nil })
		return len(left) == 0, fmt.Sprintf("%d claims are left", len(left))
	})
	w.running(4, 2*time.Minute)
	w.scale("rights", 0)
	w.until(2*time.Minute, func() (bool, string) {
		return len(w.claims()) == 0, fmt.Sprintf("%d claims are left", len(w.claims()))
	})
	used, refused := w.asked(before)
	if len(refused) > 0 {
		t.Errorf("the controller asks for what it may not do: %q", refused)
	}
	granted := w.granted(cli.DefaultControllerOptions())
	for _, right := range slices.Sorted(maps.Keys(granted)) {
		if !begun(used, right) && notAlways[right] == "" {
			t.Errorf("it may %s, and asks for that in no case that is known", right)
		}
	}
	for right := range notAlways {
		if !granted[right] {
			t.Errorf("it may not %s, though there is a reason", right)
		}
	}
	t.Logf("%d of %d rights were used", len(used), len(granted))
}

// TestSettingsUseTheRightsThatComeWithThem starts a controller with every setting that brings rights: it uses them by starting, but for
// those to write to objects that are not there.
func TestSettingsUseTheRightsThatComeWithThem(t *testing.T) {
	w := newWorld(t)
	w.defineRequests()
	before := w.audited()
	w.start("--feature-gates=CapacityBuffer=true,NodeOverlay=true,PodDeletionCostManagement=true,ProvisioningRequest=true", "--ignore-dra-requests=false", "--cluster-autoscaler-grace=1m")
	all := cli.DefaultControllerOptions()
	all.FeatureGates = map[string]bool{"CapacityBuffer": true, "NodeOverlay": true, "PodDeletionCostManagement": true, "ProvisioningRequest": true}
	all.IgnoreDRARequests, all.ClusterAutoscalerGrace = false, time.Minute
	used, refused := w.asked(before)
	if len(refused) > 0 {
		t.Errorf("the controller asks for what it may not do: %q", refused)
	}
	usual := w.granted(cli.DefaultControllerOptions())
	writes := []string{"patch pods", "patch provisioningrequests/status.autoscaling.x-k8s.io"}
	for _, right := range slices.Sorted(maps.Keys(w.granted(all))) {
		if !usual[right] && !begun(used, right) && !slices.Contains(writes, right) {
			t.Errorf("the settings grant %s, and the controller does not ask for it", right)
		}
	}
}

// TestARightThatASettingLacksIsNamed starts a controller with a feature gate, and with the rights of one without it: it is not ready, and
// its log names what it may not do.
func TestARightThatASettingLacksIsNamed(t *testing.T) {
	w := newWorld(t)
	controller := w.launch(w.account(), "--feature-gates=CapacityBuffer=true")
	w.Cleanup(func() { controller.end(syscall.SIGKILL) }) // one that waits for its caches does not hear SIGTERM
	w.until(time.Minute, func() (bool, string) {
		text, err := os.ReadFile(controller.log)
		return err == nil && strings.Contains(string(text), `cannot list resource \"podtemplates\"`), controller.tail()
	})
	response, err := http.Get(controller.health + "/readyz")
	w.must(err)
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		t.Error("the controller is ready, and may not read buffers")
	}
}

// granted are the rights that the manifests grant a controller with these options.
func (w *world) granted(o cli.ControllerOptions) map[string]bool {
	w.Helper()
	out := map[string]bool{}
	rights, err := cli.RightsOf(&o, deploy.Namespace)
	w.must(err)
	for _, r := range rights {
		out[rightOf(r.Verb, r.Resource, r.Subresource, r.Group)] = true
	}
	return out
}

// begun reports whether a right was used, or a watch that begins with such a list where the API server does not stream it.
func begun(used map[string]bool, right string) bool {
	what, isList := strings.CutPrefix(right, "list ")
	return used[right] || isList && used["watch "+what]
}

// audited is how long the audit log is.
func (w *world) audited() int64 {
	w.Helper()
	file, err := os.Stat(w.playground.AuditLog())
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	w.must(err)
	return file.Size()
}

// asked are the rights that Tenon's account has used since the audit log was so long, and what it was refused.
func (w *world) asked(since int64) (used map[string]bool, refused []string) {
	w.Helper()
	file, err := os.Open(w.playground.AuditLog())
	w.must(err)
	defer file.Close()
	_, err = file.Seek(since, io.SeekStart)
	w.must(err)
	used = map[string]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e auditv1.Event
		w.must(json.Unmarshal(lines.Bytes(), &e))
		if e.User.Username != "system:serviceaccount:"+deploy.Namespace+":"+deploy.ServiceAccount || e.ObjectRef == nil {
			continue
		}
		right := rightOf(e.Verb, e.ObjectRef.Resource, e.ObjectRef.Subresource, e.ObjectRef.APIGroup)
		if e.Annotations["authorization.k8s.io/decision"] == "allow" {
			used[right] = true
		} else {
			refused = append(refused, right)
		}
	}
	w.must(lines.Err())
	return used, refused
}

func rightOf(verb, resource, subresource, group string) string {
	name := strings.TrimSuffix(resource+"/"+subresource, "/")
	return verb + " " + strings.TrimSuffix(name+"."+group, ".")
}
