package endtoend_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "tenon.sh/api/v1"
	"tenon.sh/deploy"
	"tenon.sh/provider"
)

// doctor runs tenon doctor with a kubeconfig, and returns what it says and its exit status.
func (w *world) doctor(kubeconfig string, args ...string) (text string, status int) {
	w.Helper()
	var out bytes.Buffer
	c := exec.CommandContext(w, os.Args[0], append([]string{"doctor", "--kubeconfig", kubeconfig}, args...)...)
	c.Env = append(append(os.Environ(), asTenon+"=1"), w.environment...)
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		w.Fatal(err)
	}
	w.Logf("tenon doctor (%d):\n%s", c.ProcessState.ExitCode(), &out)
	return out.String(), c.ProcessState.ExitCode()
}

// findings are those of -o json.
func (w *world) findings(kubeconfig string) (found []provider.Finding, status int) {
	w.Helper()
	text, status := w.doctor(kubeconfig, "-o", "json")
	var record struct{ Findings []provider.Finding }
	w.must(json.Unmarshal([]byte(text[strings.Index(text, "{"):]), &record))
	return record.Findings, status
}

func problems(found []provider.Finding) (out []string) {
	for _, f := range found {
		if f.Level == provider.Problem {
			out = append(out, f.Object+": "+f.Says)
		}
	}
	return out
}

// A whole cluster with a controller that has the rights of the manifests has no problem; what is then broken is found.
func TestDoctorFindsWhatWasBroken(t *testing.T) {
	w, controller := installed(t)
	d := w.deploymentOf(controller)
	w.changeDeployment(d, deploy.ServiceAccount)
	w.until(time.Minute, func() (bool, string) { // KWOK runs a pod of it
		w.must(w.Get(w, client.ObjectKeyFromObject(d), d))
		return d.Status.ReadyReplicas == 1, "the Deployment has no ready pod"
	})
	found, status := w.findings(w.playground.Kubeconfig())
	if got := problems(found); len(got) > 0 || status != 0 {
		t.Errorf("a whole cluster: status %d, %q", status, got)
	}
	w.saysOf(found, "rbac", "ServiceAccount kube-system/tenon may do all")

	w.environment = []string{"KUBERNETES_SERVICE_HOST=10.0.0.1", "SYSTEM_NAMESPACE=kube-system"} // as in the controller's pod
	found, status = w.findings(w.account())
	w.environment = nil
	if got := problems(found); len(got) > 0 || status != 0 {
		t.Errorf("as the controller itself: status %d, %q", status, got)
	}
	w.saysOf(found, "rbac", "ServiceAccount of this pod may do all")
	w.saysOf(found, "not checked", "CRDs could not be looked at")

	before := client.MergeFrom(d.DeepCopy()) // a patch, because the controller of Deployments writes the same object
	// Two variables of one name, as by the chart's controller.env, behind the variable that the chart sets
	d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "FEATURE_GATES", Value: "CapacityBuffer=false"}, {Name: "FEATURE_GATES", Value: "CapacityBuffer=true,ProvisioningRequest=true"}}
	w.must(w.Patch(w, d, before))
	found, _ = w.findings(w.playground.Kubeconfig())
	w.said(strings.Join(problems(found), "\n"), "ServiceAccount kube-system/tenon: it may not watch capacitybuffers.autoscaling.x-k8s.io, list podtemplates, watch podtemplates")
	before = client.MergeFrom(d.DeepCopy())
	d.Spec.Template.Spec.Containers[0].Env = nil
	w.must(w.Patch(w, d, before))

	w.pool("impossible", func(p *v1.NodePool) {
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements, v1.Requirement{Key: "node.kubernetes.io/instance-type", Operator: v1.In, Values: []string{"none-such"}})
	})
	w.poolReady("impossible")
	w.hookWithoutService()
	role := &rbacv1.ClusterRole{}
	w.must(w.Get(w, keyOf("tenon"), role))
	whole := role.DeepCopy()
	role.Rules = role.Rules[1:]
	w.must(w.Update(w, role))
	w.Cleanup(func() { // before the controller goes
		role.Rules = whole.Rules
		w.must(w.Update(w, role))
	})
	found, _ = w.findings(w.playground.Kubeconfig())
	all := strings.Join(problems(found), "\n")
	w.said(all, "NodePool impossible: no instance type meets the pool's own requirements", "ServiceAccount kube-system/tenon: it may not list nodepools.karpenter.sh",
		"ValidatingWebhookConfiguration dead: webhook dead.example.com refuses to let pods be written: its service default/dead has no ready endpoint")
}

// saysOf checks that a check found this.
func (w *world) saysOf(found []provider.Finding, check, says string) {
	w.Helper()
	for _, f := range found {
		if f.Check == check && strings.Contains(f.Says, says) {
			return
		}
	}
	w.Errorf("%s does not say %q: %+v", check, says, found)
}

// hookWithoutService makes a webhook for the pods of a namespace that does not exist, so that it is in nobody's way.
func (w *world) hookWithoutService() {
	w.Helper()
	none := admissionv1.SideEffectClassNone
	h := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "dead"}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "dead.example.com", ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "default", Name: "dead"}},
		Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "nowhere"}}, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
	}}}
	w.must(w.Create(w, h))
	w.Cleanup(func() { w.must(client.IgnoreNotFound(w.Delete(w, h))) })
}

func TestDoctorSaysWhatItMayNotSee(t *testing.T) {
	w := newWorld(t)
	own, err := w.playground.UserKubeconfig("nobody-in-particular", "tenon-test-readers")
	w.must(err)
	if text, status := w.doctor(own); status != 2 || !strings.Contains(text, "forbidden") {
		t.Errorf("somebody without any right: status %d", status)
	}
	name := metav1.ObjectMeta{Name: "tenon-test-readers"}
	role := &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "apps", "policy", "storage.k8s.io", "karpenter.sh", "karpenter.kwok.sh", "karpenter.k8s.aws", "resource.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"list"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name.Name}}}
	w.must(w.Create(w, role))
	w.must(w.Create(w, binding))
	t.Cleanup(func() { w.must(w.Delete(w, role)); w.must(w.Delete(w, binding)) })
	w.until(30*time.Second, func() (bool, string) { // rights take a moment
		text, status := w.doctor(own)
		return status == 0 && strings.Contains(text, "CRDs could not be looked at") && strings.Contains(text, "Leases could not be looked at"), text
	})
}
