package doctor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tenon.sh/api/awsv1"
	"tenon.sh/api/crds"
	v1 "tenon.sh/api/v1"
	"tenon.sh/doctor"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/scenario"
)

// healthy returns a cluster without a fault: a pool that can launch, a node, a controller that leads.
func healthy(t *testing.T) *doctor.Picture { return picture(t, healthyText) }

const healthyText = `pool general
type small cpu=2 mem=4Gi zones=a,b price=0.05
node one pool=general type=small
pod web cpu=1 node=one
daemonset agent cpu=100m
`

// picture returns a healthy cluster with these nodes, pools and pods.
func picture(t *testing.T, text string) *doctor.Picture {
	t.Helper()
	file, err := scenario.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	p := &doctor.Picture{
		Now: file.Snapshot.Now, Snapshot: file.Snapshot, Options: file.Options, Wanted: wanted, Class: "ec2nodeclasses.karpenter.k8s.aws", Account: "kube-system/karpenter",
		Deployments: []*appsv1.Deployment{deployment("kube-system", "karpenter", "karpenter", "karpenter:1")},
		Leases:      []*coordinationv1.Lease{lease("kube-system", file.Snapshot.Now)},
	}
	for _, crd := range wanted {
		p.Installed = append(p.Installed, crd.DeepCopy())
	}
	return p
}

// beside adds a Cluster Autoscaler to the cluster, and these nodes and pods.
func beside(t *testing.T, p *doctor.Picture, text string) {
	t.Helper()
	p.Snapshot = picture(t, healthyText+text).Snapshot
	p.Deployments = append(p.Deployments, deployment("kube-system", "ca", "aws-cluster-autoscaler", "registry.example.com/cluster-autoscaler:v1"))
}

// status returns the ConfigMap that Cluster Autoscaler has written at a time.
func status(at time.Time) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		"cluster-autoscaler.kubernetes.io/last-updated": at.Format("2006-01-02 15:04:05.999999999 -0700 MST"),
	}}}
}

func deployment(namespace, name, label, image string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Status: appsv1.DeploymentStatus{ReadyReplicas: 1}}
	d.Spec.Template.Labels = map[string]string{"app.kubernetes.io/name": label}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Image: image}}
	return d
}

func lease(namespace string, renewed time.Time) *coordinationv1.Lease {
	who, seconds, at := "karpenter-1_x", int32(15), metav1.NewMicroTime(renewed)
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "karpenter-leader-election"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &who, LeaseDurationSeconds: &seconds, RenewTime: &at}}
}

// found returns all findings that are not OK, one per line.
func found(p *doctor.Picture) string {
	var lines []string
	for _, f := range doctor.Examine(p) {
		if f.Level != provider.OK {
			lines = append(lines, fmt.Sprintf("%s %s: %s", f.Level, f.Object, f.Says))
		}
	}
	return strings.Join(lines, "\n")
}

func TestAHealthyClusterHasNoFindings(t *testing.T) {
	t.Parallel()
	p := healthy(t)
	if got := found(p); got != "" {
		t.Error(got)
	}
	for _, f := range doctor.Examine(p) {
		if f.Says == "" || f.Check == "" {
			t.Errorf("%+v", f)
		}
	}
	if worst := doctor.Worst(doctor.Examine(p)); worst != provider.OK {
		t.Error(worst)
	}
}

// Each case has one fault in an otherwise healthy cluster, and the one finding about it.
func TestWhatIsWrongIsFound(t *testing.T) {
	t.Parallel()
	never, url := metav1.ConditionFalse, "https://old.example.com"
	for name, test := range map[string]struct {
		change func(*doctor.Picture)
		want   string
	}{
		"definition missing":             {func(p *doctor.Picture) { drop(p, "nodeclaims.karpenter.sh") }, "problem CRD nodeclaims.karpenter.sh: it is not installed: the controller waits for it"},
		"class of another cloud missing": {func(p *doctor.Picture) { drop(p, "kwoknodeclasses.karpenter.kwok.sh") }, ""},
		"definition too old": {func(p *doctor.Picture) {
			delete(crd(p, "nodepools.karpenter.sh").Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "replicas")
		}, "problem CRD nodepools.karpenter.sh: it is too old, and drops spec.replicas"},
		"not served": {func(p *doctor.Picture) { crd(p, "nodepools.karpenter.sh").Spec.Versions[0].Served = false }, "problem CRD nodepools.karpenter.sh: version v1 is not served"},
		"conversion webhook": {func(p *doctor.Picture) {
			crd(p, "nodepools.karpenter.sh").Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "kube-system", Name: "karpenter"}}}}
		}, "problem CRD nodepools.karpenter.sh: objects are converted by a webhook (service kube-system/karpenter), which only versions of Karpenter before 1.1 answer"},
		"conversion webhook outside": {func(p *doctor.Picture) {
			crd(p, "nodepools.karpenter.sh").Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &url}}}
		}, "problem CRD nodepools.karpenter.sh: objects are converted by a webhook (https://old.example.com), which only versions of Karpenter before 1.1 answer"},
		"stored in v1beta1": {func(p *doctor.Picture) {
			crd(p, "nodeclaims.karpenter.sh").Status.StoredVersions = []string{"v1beta1", "v1"}
		}, "problem CRD nodeclaims.karpenter.sh: objects may still be stored in version v1beta1, so that a definition without it is refused"},
		"nobody runs":            {func(p *doctor.Picture) { p.Deployments, p.Leases = nil, nil }, "warning : no controller runs: pods wait for machines, and machines that are being deleted stay"},
		"one that nobody elects": {func(p *doctor.Picture) { p.Deployments, p.Leases, p.Answers = nil, nil, true }, ""},
		"no pod is ready":        {func(p *doctor.Picture) { p.Deployments[0].Status.ReadyReplicas = 0 }, "problem Deployment kube-system/karpenter: none of its pods is ready"},
		"cluster-autoscaler": {func(p *doctor.Picture) {
			p.Deployments = append(p.Deployments, deployment("kube-system", "ca", "aws-cluster-autoscaler", "registry.example.com/cluster-autoscaler:v1"))
		}, "warning Deployment kube-system/ca: cluster-autoscaler runs beside: both start machines for the same pods"},
		"pods for both": {func(p *doctor.Picture) {
			beside(t, p, `
node blue cpu=4 mem=8Gi labels=agentpool:blue
pods shop x3 cpu=100m node=blue owner=ReplicaSet/shop`)
		},
			"warning NodePool general: it and node group blue are for the same pods, such as default/shop-1, default/web: both start machines for them"},
		"pods apart by a taint": {func(p *doctor.Picture) {
			beside(t, p, `
node blue cpu=4 mem=8Gi labels=agentpool:blue taint=team=blue:NoSchedule
pod shop cpu=100m node=blue tolerate=team select=agentpool:blue`)
		}, ""},
		"pods that tolerate the taint and choose nothing": {func(p *doctor.Picture) {
			beside(t, p, `
node blue cpu=4 mem=8Gi labels=agentpool:blue taint=team=blue:NoSchedule
pod shop cpu=100m node=blue tolerate=team`)
		},
			"warning NodePool general: it and node group blue are for the same pods, such as default/shop: both start machines for them"},
		"a group without a taint and without pods": {func(p *doctor.Picture) {
			beside(t, p, "node blue cpu=4 mem=8Gi labels=agentpool:blue\ndelete pod web")
		}, "warning NodePool general: it and node group blue keep off the same pods by their taints: both start machines for pods that choose neither by labels"},
		"a pool with a taint beside a group without": {func(p *doctor.Picture) {
			beside(t, p, "node blue cpu=4 mem=8Gi labels=agentpool:blue")
			p.Snapshot.DaemonSets = nil
			p.Snapshot.NodePools[0].Spec.Template.Spec.Taints = []v1.Taint{{Key: "team", Effect: corev1.TaintEffectNoSchedule}}
		}, ""},
		"pods for both that say who comes first": {func(p *doctor.Picture) {
			beside(t, p, "node blue cpu=4 mem=8Gi labels=agentpool:blue")
			p.Snapshot.Pods[0].Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/pod-scale-up-delay": "5m"}
		}, ""},
		"groups that nobody scales": {func(p *doctor.Picture) {
			beside(t, p, "node blue cpu=4 mem=8Gi labels=agentpool:blue")
			p.Deployments = p.Deployments[:1]
		}, ""},
		"a group that the cloud scales": {func(p *doctor.Picture) {
			beside(t, p, "node blue cpu=4 mem=8Gi labels=agentpool:blue taint=DeletionCandidateOfClusterAutoscaler=1:PreferNoSchedule")
			p.Deployments = p.Deployments[:1]
		}, "warning NodePool general: it and node group blue are for the same pods, such as default/web: both start machines for them"},
		"our machine in its group": {func(p *doctor.Picture) {
			beside(t, p, "node blue cpu=4 mem=8Gi labels=agentpool:blue taint=a:NoSchedule\npatch node one taint=DeletionCandidateOfClusterAutoscaler=1:PreferNoSchedule")
		}, "problem Node one: it is of NodeClaim one, and Cluster Autoscaler removes it: both look after the same machine"},
		"a removal that does not end": {func(p *doctor.Picture) {
			beside(t, p, fmt.Sprintf("node blue cpu=4 mem=8Gi labels=agentpool:blue taint=a:NoSchedule taint=ToBeDeletedByClusterAutoscaler=%d:NoSchedule", p.Now.Add(-time.Hour).Unix()))
		}, "warning Node blue: Cluster Autoscaler has been removing it since 2026-01-01T11:00:00Z, and it is still there: no pod is planned onto it"},
		"a removal that goes on": {func(p *doctor.Picture) {
			beside(t, p, fmt.Sprintf("node blue cpu=4 mem=8Gi labels=agentpool:blue taint=a:NoSchedule taint=ToBeDeletedByClusterAutoscaler=%d:NoSchedule", p.Now.Add(-time.Minute).Unix()))
		}, ""},
		"a silent cluster-autoscaler": {func(p *doctor.Picture) { p.AutoscalerStatus = status(p.Now.Add(-time.Hour)) },
			"warning ConfigMap kube-system/cluster-autoscaler-status: Cluster Autoscaler has not written it since 2026-01-01T11:00:00Z: its node groups neither grow nor shrink, and pods that are for them alone wait"},
		"a cluster-autoscaler at work": {func(p *doctor.Picture) { p.AutoscalerStatus = status(p.Now.Add(-time.Minute)) }, ""},
		"a status without a time":      {func(p *doctor.Picture) { p.AutoscalerStatus = &corev1.ConfigMap{} }, ""},
		"a cluster-autoscaler that does not run": {func(p *doctor.Picture) {
			beside(t, p, "node blue cpu=4 mem=8Gi labels=agentpool:blue taint=a:NoSchedule")
			p.Deployments[1].Status.ReadyReplicas = 0
		}, "warning Deployment kube-system/ca: none of its pods is ready: its node groups neither grow nor shrink, and pods that are for them alone wait"},
		"protected from it alone": {func(p *doctor.Picture) {
			p.Snapshot.Pods[0].Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
		}, `warning Pod default/web: annotation cluster-autoscaler.kubernetes.io/safe-to-evict is "false", which only Cluster Autoscaler reads: Tenon may move them`},
		"protected from both": {func(p *doctor.Picture) {
			p.Snapshot.Pods[0].Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", v1.DoNotDisruptAnnotationKey: "true"}
		}, ""},
		"a node protected from it alone": {func(p *doctor.Picture) {
			p.Snapshot.Nodes[0].Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
		}, `warning Node one: annotation cluster-autoscaler.kubernetes.io/scale-down-disabled is "true", which only Cluster Autoscaler reads: Tenon may remove them`},
		"two leaders": {func(p *doctor.Picture) { p.Leases = append(p.Leases, lease("karpenter", p.Now)) },
			"problem Lease kube-system/karpenter-leader-election: 2 controllers lead at the same time, under Leases in karpenter, kube-system: each starts and removes machines"},
		"an old lease is none": {func(p *doctor.Picture) { p.Leases = append(p.Leases, lease("karpenter", p.Now.Add(-time.Hour))) }, ""},
		"two deployments": {func(p *doctor.Picture) {
			p.Deployments = append(p.Deployments, deployment("kube-system", "tenon", "tenon", "tenon:1"))
		}, "warning Deployment kube-system/tenon: there are 2 Deployments of the autoscaler; the other is Deployment kube-system/karpenter, and only their Lease keeps them apart"},
		"rights":                 {func(p *doctor.Picture) { p.Denied = []string{"delete nodes", "create pods/eviction"} }, "problem ServiceAccount kube-system/karpenter: it may not delete nodes, create pods/eviction"},
		"webhook":                {func(p *doctor.Picture) { p.Hooks = []doctor.Hook{hook("policy", "pods", 0)} }, "problem ValidatingWebhookConfiguration policy: webhook check.example.com refuses to let pods be written: its service other/policy has no ready endpoint"},
		"webhook that answers":   {func(p *doctor.Picture) { p.Hooks = []doctor.Hook{hook("policy", "pods", 1)} }, ""},
		"webhook nobody may see": {func(p *doctor.Picture) { p.Hooks = []doctor.Hook{hook("policy", "pods", -1)} }, ""},
		"webhook outside the cluster": {func(p *doctor.Picture) {
			h := hook("policy", "pods", -1)
			h.ExternalName = "policy.example.com"
			p.Hooks = []doctor.Hook{h}
		}, "warning ValidatingWebhookConfiguration policy: webhook check.example.com refuses to let pods be written while policy.example.com does not answer: " +
			"its service other/policy is of type ExternalName, so that it is not known here whether it does"},
		"webhook outside that lets pass": {func(p *doctor.Picture) {
			h := hook("policy", "pods", -1)
			h.ExternalName, h.Refuses = "policy.example.com", false
			p.Hooks = []doctor.Hook{h}
		}, ""},
		"webhook of other things": {func(p *doctor.Picture) { p.Hooks = []doctor.Hook{hook("policy", "secrets", 0)} }, ""},
		"webhook of old Karpenter": {func(p *doctor.Picture) { p.Hooks = []doctor.Hook{hook("validation.webhook.karpenter.sh", "x", 0)} },
			"problem ValidatingWebhookConfiguration validation.webhook.karpenter.sh: an older Karpenter left it behind, and its service other/policy does not answer: pools and classes cannot be written"},
		"class": {func(p *doctor.Picture) {
			c := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
			c.Status.Conditions = []metav1.Condition{{Type: "AMIsReady", Status: never, Message: "no image"}, {Type: v1.ConditionReady, Status: never, Message: "AMIsReady=False"}}
			p.Classes = []provider.Class{{Ref: v1.NodeClassReference{Kind: "EC2NodeClass", Name: "default"}, Object: c}}
		}, "problem EC2NodeClass default: it is not ready: AMIsReady: no image"},
		"a pod that thinks it is protected": {func(p *doctor.Picture) {
			p.Snapshot.Pods[0].Annotations = map[string]string{"karpenter.sh/do-not-evict": "true"}
		}, "warning Pod default/web: annotation karpenter.sh/do-not-evict is not read any more, and protects nothing: its name is karpenter.sh/do-not-disrupt now"},
		"a node that thinks it is protected": {func(p *doctor.Picture) {
			p.Snapshot.Nodes[0].Annotations = map[string]string{"karpenter.sh/do-not-consolidate": "true"}
		}, "warning Node one: annotation karpenter.sh/do-not-consolidate is not read any more, and protects nothing: its name is karpenter.sh/do-not-disrupt now"},
		"both names": {func(p *doctor.Picture) {
			p.Snapshot.Pods[0].Annotations = map[string]string{"karpenter.sh/do-not-evict": "true", "karpenter.sh/do-not-disrupt": "true"}
		}, ""},
		"not protected": {func(p *doctor.Picture) {
			p.Snapshot.Pods[0].Annotations = map[string]string{"karpenter.sh/do-not-evict": "false"}
		}, ""},
		"an old pod that is over": {func(p *doctor.Picture) {
			p.Snapshot.Pods[0].Annotations, p.Snapshot.Pods[0].Status.Phase = map[string]string{"karpenter.sh/do-not-evict": "true"}, corev1.PodSucceeded
		}, ""},
		"gap": {func(p *doctor.Picture) { p.Gaps = []doctor.Gap{{What: "Leases", Why: "forbidden"}} }, "warning : Leases could not be looked at: forbidden"},
	} {
		p := healthy(t)
		test.change(p)
		if got := found(p); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, test.want)
		}
	}
}

func crd(p *doctor.Picture, name string) *apiextensionsv1.CustomResourceDefinition {
	for _, crd := range p.Installed {
		if crd.Name == name {
			return crd
		}
	}
	return nil
}

func drop(p *doctor.Picture, name string) {
	var left []*apiextensionsv1.CustomResourceDefinition
	for _, crd := range p.Installed {
		if crd.Name != name {
			left = append(left, crd)
		}
	}
	p.Installed = left
}

func hook(configuration, resource string, endpoints int) doctor.Hook {
	return doctor.Hook{Kind: "ValidatingWebhookConfiguration", Configuration: configuration, Name: "check.example.com", Refuses: true, Service: "other/policy", Endpoints: endpoints,
		Rules: []admissionv1.RuleWithOperations{{Rule: admissionv1.Rule{APIGroups: []string{""}, Resources: []string{resource}}}}}
}

// The same for objects in the cluster, in the notation of scenarios.
func TestWhatIsWrongWithPoolsAndNodesIsFound(t *testing.T) {
	t.Parallel()
	const types = "type small cpu=2 mem=4Gi zones=a,b price=0.05\n"
	for name, test := range map[string]struct{ text, want string }{
		"no pool":                     {"node one cpu=2 mem=4Gi", "warning : there is no NodePool: no machine is ever started"},
		"contradiction":               {"pool general zone in (a) zone in (b)\n" + types, "problem NodePool general: no instance type of its class meets its requirements: topology.kubernetes.io/zone In a, topology.kubernetes.io/zone In b"},
		"no such type":                {"pool general type in (huge)\n" + types, "problem NodePool general: no instance type meets the pool's own requirements: node.kubernetes.io/instance-type In (huge), on offer are small"},
		"class with problem":          {"class default problem=\"no subnet\"\npool general\n" + types, "problem NodePool general: it cannot be used: KWOKNodeClass default: no subnet"},
		"limit 0":                     {"pool general limits=cpu:0\n" + types, "warning NodePool general: its limit of cpu is 0, so that it never launches a machine"},
		"retired":                     {"pool general retire\n" + types, "warning NodePool general: it is retired, and starts no machine any more"},
		"not a time":                  {"pool general pause=sometime\n" + types, "warning NodePool general: "},
		"sold out":                    {"pool general\ntype small cpu=2 mem=4Gi zones=a,b price=0.05 sold-out\n", "warning NodePool general: everything that its requirements allow is sold out now: "},
		"limit of no resource":        {"pool general limits=vendor.example/cpus:4\n" + types, "warning NodePool general: spec.limits: vendor.example/cpus limits nothing, because no instance type of its node class has that resource"},
		"pods that nothing can run":   {"pool general\n" + types + "pods web x4 cpu=200", "warning : nothing can run 4 pods that wait: default/web-1, default/web-2, default/web-3 and 1 more: pool general: needs 200 cpu, "},
		"pod that a machine will run": {"pool general\n" + types + "pod web cpu=1", ""},
		"daemon too large":            {"pool general\n" + types + "daemonset agent cpu=8", "warning DaemonSet default/agent: its pods fit no machine of any pool: "},
		"daemon without room": {"pool general\n" + types + "daemonset agent cpu=100m\npods agent x2 cpu=1 owner=DaemonSet/agent age=5m",
			"warning DaemonSet default/agent: 2 pods found no room on the nodes they are for, the first is agent-1"},
		"daemon just made": {"pool general\n" + types + "daemonset agent cpu=100m\npods agent x2 cpu=1 owner=DaemonSet/agent age=1m", ""},
		"too many volumes": {"pool general\n" + types + "node one pool=general type=small zone=a attach=disk.example.com:1\nvolume a zone=a claim=a\nvolume b zone=a claim=b\npod web node=one disk=a,b",
			"warning Node one: its pods have 2 volumes of disk.example.com, and it takes 1: some wait for theirs without an end"},
		"as many volumes as it takes": {"pool general\n" + types + "node one pool=general type=small zone=a attach=disk.example.com:2\nvolume a zone=a claim=a\nvolume b zone=a claim=b\npod web node=one disk=a,b", ""},
		"budget of nothing":           {"pool general\n" + types + "pdb web max=0 expected=3 allowed=0", "warning PodDisruptionBudget default/web: maxUnavailable 0 lets none of its 3 pods go: their nodes are never drained, and drift and expiry wait for ever"},
		"budget of all":               {"pool general\n" + types + "pdb web min=3 expected=3 allowed=0", "warning PodDisruptionBudget default/web: minAvailable 3 lets none"},
		"budget used up":              {"pool general\n" + types + "pdb web max=1 expected=3 allowed=0", ""},
		"never joined":                {"pool general\n" + types + "claim slow pool=general type=small zone=a age=2h", "problem NodeClaim slow: its machine has not joined for 2h0m0s, and nobody has given it up"},
		"joining":                     {"pool general\n" + types + "claim slow pool=general type=small zone=a age=2m", ""},
		"pool gone":                   {"pool general\npool other\n" + types + "node one pool=other type=small\ndelete pool other", "warning NodeClaim one: its NodePool other does not exist: it is never replaced"},
		"node of nobody":              {"pool general\n" + types + "node one cpu=2 mem=4Gi labels=karpenter.sh/nodepool:general", "warning Node one: it carries the label of NodePool general and has no NodeClaim: nobody replaces or removes it"},
	} {
		p := picture(t, test.text+"\n")
		if got := found(p); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" || strings.Contains(got, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, test.want)
		}
	}
}

// Messages of a pool about its machines are passed on, with a remedy.
func TestWhatAPoolSaysOfItsMachinesIsFound(t *testing.T) {
	t.Parallel()
	for condition, c := range map[string]struct {
		status metav1.ConditionStatus
		want   string
	}{
		v1.ConditionNodeRegistrationHealthy: {metav1.ConditionFalse, "problem NodePool general: its machines do not join the cluster: so it is"},
		v1.ConditionReplacementsFailing:     {metav1.ConditionTrue, "warning NodePool general: replacing its nodes is halted: so it is"},
		v1.ConditionLaunchesBackedOff:       {metav1.ConditionTrue, "warning NodePool general: its machines do not take the pods they are started for: so it is"},
	} {
		p := picture(t, "pool general\ntype small cpu=2 mem=4Gi zones=a price=0.05\n")
		v1.SetCondition(p.Snapshot.NodePools[0], condition, c.status, "Because", "so it is", p.Now)
		if got := found(p); !strings.HasPrefix(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", condition, got, c.want)
		}
	}
}

func TestARemovalThatDoesNotEndIsFoundWithWhoHoldsIt(t *testing.T) {
	t.Parallel()
	for finalizer, want := range map[string]string{
		v1.TerminationFinalizer: "problem NodeClaim one: it has been leaving for 45m0s: see what its pods wait for",
		"example.com/hold":      "warning NodeClaim one: it has been leaving for 45m0s, held by example.com/hold, which is not the autoscaler's",
	} {
		p := healthy(t)
		at := metav1.NewTime(p.Now.Add(-45 * time.Minute))
		for _, c := range p.Snapshot.NodeClaims {
			c.DeletionTimestamp, c.Finalizers = &at, []string{finalizer}
		}
		if got := found(p); got != want {
			t.Errorf("%s: %s", finalizer, got)
		}
		at = metav1.NewTime(p.Now.Add(-5 * time.Minute))
		if got := found(p); got != "" {
			t.Errorf("%s, for a moment only: %s", finalizer, got)
		}
	}
}

func TestAMachineWhoseNodeIsGoneIsFoundOnceNobodyGivesItUp(t *testing.T) {
	t.Parallel()
	for ago, want := range map[time.Duration]string{
		time.Minute: "",
		time.Hour:   "problem NodeClaim one: its machine has not joined for 1h0m0s, and nobody has given it up",
	} {
		p := healthy(t)
		c := p.Snapshot.NodeClaims[0]
		c.CreationTimestamp, p.Snapshot.Nodes = metav1.NewTime(p.Now.Add(-240*time.Hour)), nil
		v1.SetCondition(c, v1.ConditionRegistered, metav1.ConditionUnknown, "NodeNotFound", "", p.Now.Add(-ago))
		if got := found(p); got != want {
			t.Errorf("%v: %s", ago, got)
		}
	}
}

func TestTheSameProviderIDTwiceIsFound(t *testing.T) {
	t.Parallel()
	p := healthy(t)
	twin := p.Snapshot.Nodes[0].DeepCopy()
	twin.Name = "twin"
	p.Snapshot.Nodes = append(p.Snapshot.Nodes, twin)
	if got := found(p); !strings.Contains(got, "problem Node twin: it says to be the same machine as Node one") {
		t.Error(got)
	}
}

func TestWhatCannotBeSeenIsNotJudged(t *testing.T) {
	t.Parallel()
	p := &doctor.Picture{Now: time.Now(), Options: engine.Options{}, Gaps: []doctor.Gap{{What: "everything", Why: "forbidden"}}}
	for _, f := range doctor.Examine(p) {
		if f.Level == provider.Problem {
			t.Errorf("%+v", f)
		}
	}
}

func TestDoctorSaysHowKubeSchedulerIsTakenToRankNodes(t *testing.T) {
	t.Parallel()
	find := func(p *doctor.Picture) (says []string) {
		for _, f := range doctor.Examine(p) {
			if f.Check == "scheduler" {
				says = append(says, string(f.Level)+": "+f.Object+": "+f.Says)
			}
		}
		return says
	}
	pod := &corev1.Pod{}
	pod.Spec.SchedulerName = "volcano"
	for want, c := range map[string]engine.Options{
		"LeastAllocated": {},
		"scheduler pack scores by MostAllocated of cpu (weight 2), NodeAffinity off": {Profiles: []engine.SchedulerProfile{{
			SchedulerName: "pack", Strategy: engine.MostAllocated, Resources: []engine.ResourceWeight{{Name: "cpu", Weight: 2}}, Weights: map[string]int64{"NodeAffinity": 0}}}},
		"schedulers that --scheduler-config has no profile for: volcano": {Profiles: []engine.SchedulerProfile{{SchedulerName: "default-scheduler"}}},
		"not taken into account: extender http://e":                      {Profiles: []engine.SchedulerProfile{{Unread: []string{"extender http://e"}}}},
	} {
		p := &doctor.Picture{Now: time.Now(), Options: c, Snapshot: &engine.Snapshot{Pods: []*corev1.Pod{pod}}}
		if got := strings.Join(find(p), "\n"); !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}
