package prometheus_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/aws/awstest"
)

// TestAlertsOfAWSFireAndResolve: nobody may take notices of interruptions off their queue, and nobody may ask for prices, from the
// start on. Prices may be old for more than a day, so that a second Prometheus lives an hour in a second.
func TestAlertsOfAWSFireAndResolve(t *testing.T) {
	w := newWorld(t)
	account := awstest.New(t)
	queue := account.Observer().Furnish()
	denied := awstest.Fault{Status: 403, Code: "AccessDenied", Message: "not authorized"}
	account.Fail("pricing:GetProducts", denied)
	account.Fail("sqs:DeleteMessageBatch", denied)
	account.Limit(awstest.Offering{CapacityType: "spot"}, 0, "")
	variables := account.Environment()
	for _, variable := range os.Environ() { // whatever would lead to somebody's real account
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	controller := w.startController([]string{
		"--kubeconfig", w.playground.Kubeconfig(), "--cloud-provider", "aws", "--cluster-name", awstest.Cluster, "--cluster-endpoint", w.playground.RESTConfig().Host,
		"--eks-control-plane", "--interruption-queue", awstest.Queue,
	}, variables)
	monitor := w.installChart(controller.metrics)
	// EC2 sells so much that the page of metrics is long: it is read less often.
	s, fast := w.startPrometheus(pace{60, 2 * time.Second}, monitor), w.startPrometheus(pace{3600, 5 * time.Second}, monitor)
	w.poolOfAWS()

	// Of a counter that is not there yet nobody sees the increase: first there is one of each, and then there are more.
	account.Observer().Send(queue, warning(0, time.Now()))
	w.seen(s, "karpenter_interruption_received_messages_total")
	w.seen(s, "karpenter_cloudprovider_instance_launch_failures_total")
	w.pod("large", "40", "nodeSelector: {karpenter.sh/nodepool: ec2, karpenter.sh/capacity-type: spot}")
	for i := range 15 {
		account.Observer().Send(queue, warning(1+i, time.Now()))
	}
	found := w.fires(s, "TenonInterruptionsWait", nil)
	w.Logf("fires: %s", found.Annotations["summary"])
	found = w.fires(fast, "TenonPricesStale", map[string]string{"capacity_type": "on-demand"})
	w.Logf("fires: %s", found.Annotations["summary"])
	account.Heal()
	w.resolves(s, "TenonInterruptionsWait", nil)
	w.dashboards(s, "AWS")
	// After a failure prices are asked for again in five minutes, and when Tenon starts.
	controller.Kill()
	w.must(w.again(controller))
	w.resolves(fast, "TenonPricesStale", map[string]string{"capacity_type": "on-demand"})
}

// seen waits until Prometheus has a metric.
func (w *world) seen(s *server, metric string) {
	w.Helper()
	w.until(time.Minute, func() (bool, string) {
		series, err := s.series(metric, time.Now(), time.Now())
		w.must(err)
		return len(series) > 0, "there is no " + metric
	})
}

// warning is a notice about some machine.
func warning(i int, at time.Time) string {
	return fmt.Sprintf(`{"version":"0","id":"%d","source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","account":"1","region":%q,"time":%q,`+
		`"resources":[],"detail":{"instance-id":"i-%017x","instance-action":"terminate"}}`, i, awstest.Region, at.UTC().Format(time.RFC3339), i)
}

// poolOfAWS makes a pool of EC2's machines, and pods for it, and waits until one has been started.
func (w *world) poolOfAWS() {
	w.Helper()
	w.applyText(strings.NewReplacer("ROLE", awstest.NodeRole, "CLUSTER", awstest.Cluster).Replace(`
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: ROLE
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: CLUSTER}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: ec2}
spec:
  template:
    spec:
      requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand, spot]}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}`))
	w.until(time.Minute, func() (bool, string) {
		class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		w.must(w.Get(w, client.ObjectKeyFromObject(class), class))
		return v1.IsTrue(class, v1.ConditionReady), fmt.Sprintf("the class says %+v", class.Status.Conditions)
	})
	w.pods("ec2", 3)
	w.until(time.Minute, func() (bool, string) {
		for _, c := range w.claims("ec2") {
			if v1.IsTrue(&c, v1.ConditionLaunched) {
				return true, ""
			}
		}
		return false, "no machine of EC2 is started"
	})
}
