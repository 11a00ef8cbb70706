package aws_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/aws/awstest"
)

// stack is a class, a pool that uses it and pods that run nowhere else.
const stack = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: NAME}
spec:
  role: ROLE
  amiSelectorTerms: [{alias: ALIAS}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: SUBNETS}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: NAME}
spec:
  template:
    spec:
      requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5, c5]}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: NAME}
  disruption: {consolidateAfter: Never}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {karpenter.sh/nodepool: NAME}
      containers: [{name: c, image: pause, resources: {requests: {cpu: "1"}}}]
`

// stack applies one with replacements, pairs of what stands there and what should; the rest of it is sound.
func (w *world) stack(name string, replacements ...string) {
	w.Helper()
	usual := []string{"NAME", name, "ROLE", awstest.NodeRole, "ALIAS", "al2023@latest", "SUBNETS", awstest.Cluster}
	w.apply(strings.NewReplacer(append(replacements, usual...)...).Replace(stack))
}

// runs waits until the pods of a stack run.
func (w *world) runs(name string) {
	w.Helper()
	w.until(patience, func() (string, bool) {
		for _, p := range w.running() {
			if p.Labels["app"] == name {
				return "", true
			}
		}
		return fmt.Sprintf("no pod of %s runs; claims: %s; %s", name, describe(w.claims()), strings.Join(w.told(name), "\n")), false
	})
}

// classSays waits until a condition of a class is not true, with that reason and those words in its message.
func (w *world) classSays(name, condition, reason string, words ...string) {
	w.Helper()
	w.until(patience, func() (string, bool) {
		class := &awsv1.EC2NodeClass{}
		w.must(w.Get(w, client.ObjectKey{Name: name}, class))
		c := v1.GetCondition(class, condition)
		if c == nil || c.Status == metav1.ConditionTrue || c.Reason != reason || v1.IsTrue(class, v1.ConditionReady) {
			return fmt.Sprintf("class %s: %+v, want %s not true, reason %s", name, class.Status.Conditions, condition, reason), false
		}
		for _, word := range words {
			if !strings.Contains(c.Message, word) {
				return fmt.Sprintf("class %s: %s says %q, want %q in it", name, condition, c.Message, word), false
			}
		}
		return "", true
	})
}

// told lists what events say about the pods of a stack.
func (w *world) told(name string) (out []string) {
	w.Helper()
	var events corev1.EventList
	w.must(w.List(w, &events, client.InNamespace("default")))
	for _, e := range events.Items {
		if e.InvolvedObject.Kind == "Pod" && strings.HasPrefix(e.InvolvedObject.Name, name+"-") && e.Source.Component == "karpenter" {
			out = append(out, e.Reason+": "+e.Message)
		}
	}
	return out
}

// podsAreTold waits until an event says to the pods of a stack why they wait, with those words.
func (w *world) podsAreTold(name string, words ...string) {
	w.Helper()
	w.until(patience, func() (string, bool) {
		told := w.told(name)
		for _, text := range told {
			all := true
			for _, word := range words {
				all = all && strings.Contains(text, word)
			}
			if all {
				return "", true
			}
		}
		return fmt.Sprintf("the pods of %s are told %q, want %q", name, told, words), false
	})
}

// denied is how AWS refuses an action to the controller's role.
func denied(code, action string) awstest.Fault {
	return awstest.Fault{Status: 403, Code: code, Message: "User: arn:aws:sts::1:assumed-role/controller/x is not authorized to perform: " + action}
}

// TestTroubleWithOneClassIsSaidAndHoldsNoOtherUp has classes that refer to what is not there, and actions that AWS does not
// allow. The class says what is wrong, pods say why they wait, another pool goes on, and nothing is left in the account.
func TestTroubleWithOneClassIsSaidAndHoldsNoOtherUp(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.stack("no-subnets", "SUBNETS", "nowhere")
	w.stack("no-image", "ALIAS", "al2023@v20010101")
	w.stack("no-role", "ROLE", "nobody")
	w.stack("sound")
	w.runs("sound")
	w.classSays("no-subnets", awsv1.ConditionSubnetsReady, awsv1.ReasonSubnetsNotFound, "subnet")
	w.classSays("no-image", awsv1.ConditionAMIsReady, awsv1.ReasonAMINotFound, "al2023@v20010101")
	w.classSays("no-role", awsv1.ConditionInstanceProfileReady, awsv1.ReasonRoleNotFound, "nobody")
	for _, name := range []string{"no-subnets", "no-image", "no-role"} {
		w.podsAreTold(name, "EC2NodeClass "+name)
	}

	t.Log("IAM does not let the controller make an instance profile")
	w.account.Fail("iam:CreateInstanceProfile", denied("AccessDenied", "iam:CreateInstanceProfile"))
	w.stack("denied")
	w.classSays("denied", awsv1.ConditionInstanceProfileReady, awsv1.ReasonResolutionFailed, "iam:CreateInstanceProfile", "AllowScopedInstanceProfileCreationActions")
	w.podsAreTold("denied", "iam:CreateInstanceProfile")

	w.account.Heal()
	w.runs("denied")

	t.Log("EC2 does not let it start machines")
	w.account.Fail("ec2:CreateFleet", denied("UnauthorizedOperation", "ec2:CreateFleet"))
	w.scale("sound", 9)
	w.podsAreTold("sound", "ec2:CreateFleet")
	w.account.Heal()
	w.until(patience, func() (string, bool) {
		n := len(w.running())
		return fmt.Sprintf("%d of 10 pods run; claims: %s", n, describe(w.claims())), n == 10
	})

	names := []string{"no-subnets", "no-image", "no-role", "sound", "denied"}
	for _, name := range names {
		w.scale(name, 0)
		w.must(w.Delete(w, pool(name)))
	}
	for _, name := range names {
		w.must(w.Delete(w, &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	w.until(3*time.Minute, func() (string, bool) {
		left, err := w.observer.Contents(w)
		return fmt.Sprintf("in the account there are %q, %v; claims: %s", left, err, describe(w.claims())), err == nil && len(left) == 0
	})
}
