package clusterapi_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"tenon.sh/api/clusterapiv1alpha1"
	v1 "tenon.sh/api/v1"
)

// priceAnnotation says what a machine of a MachineDeployment costs, in USD per hour.
const priceAnnotation = "cluster.x-k8s.io/machine-current-price"

// bill is what the nodes of the MachineDeployments cost, in USD per hour.
func (c *capiCluster) bill(mds ...*clusterv1.MachineDeployment) (sum float64) {
	c.Helper()
	for _, md := range mds {
		price, err := strconv.ParseFloat(md.Annotations[priceAnnotation], 64)
		c.must(err)
		sum += price * float64(len(c.nodes(md)))
	}
	return sum
}

// planned is what tenon plan would start for the pods of the Deployments if there were no nodes, in USD per hour.
func (c *capiCluster) planned(pool string, deployments []*appsv1.Deployment, mds ...*clusterv1.MachineDeployment) float64 {
	c.Helper()
	objects := []client.Object{&clusterapiv1alpha1.ClusterAPINodeClass{}, &v1.NodePool{}}
	for _, o := range objects {
		c.must(c.Get(c, client.ObjectKey{Name: pool}, o))
	}
	for _, d := range deployments {
		objects = append(objects, d.DeepCopy())
	}
	for _, md := range mds {
		objects = append(objects, md.DeepCopy())
	}
	list := struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Items      []runtime.Object `json:"items"`
	}{APIVersion: "v1", Kind: "List"}
	for _, o := range objects {
		kind, err := apiutil.GVKForObject(o, c.Scheme())
		c.must(err)
		o.GetObjectKind().SetGroupVersionKind(kind)
		list.Items = append(list.Items, o)
	}
	text, err := json.Marshal(list)
	c.must(err)
	file := filepath.Join(c.TempDir(), "objects.json")
	c.must(os.WriteFile(file, text, 0o600))
	var plan struct {
		Cost struct {
			LaunchesPerHour float64 `json:"launchesPerHour"`
		} `json:"cost"`
	}
	c.command(&plan, "plan", "-f", file, "-o", "json")
	return plan.Cost.LaunchesPerHour
}

// savings is what tenon savings makes of the live cluster without asking the controller, in USD per hour: what its nodes cost now,
// and what those of a plan would.
func (c *capiCluster) savings() (now, planned float64) {
	c.Helper()
	var account struct {
		NowPerHour     float64 `json:"nowPerHour"`
		PlannedPerHour float64 `json:"plannedPerHour"`
	}
	c.command(&account, "savings", "--kubeconfig", c.playground.Kubeconfig(), "--catalog-url", "none", "-o", "json")
	return account.NowPerHour, account.PlannedPerHour
}

// command runs tenon and reads what it prints.
func (c *capiCluster) command(into any, args ...string) {
	c.Helper()
	command := exec.Command(os.Args[0], args...)
	var notes bytes.Buffer
	command.Env, command.Stderr = append(os.Environ(), asTenon+"=1"), &notes
	out, err := command.Output()
	if err != nil {
		c.Fatalf("tenon %s: %v\n%s%s", args[0], err, out, notes.String())
	}
	c.must(json.Unmarshal(out, into))
}

// within says whether two bills differ by no more than that part of the second.
func within(part, bill, plan float64) bool { return math.Abs(bill-plan) <= part*plan }
