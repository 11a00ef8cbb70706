package azure_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tenon.sh/api/azurev1beta1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/playground/playgroundtest"
	"tenon.sh/provider/azure/azuretest"
	"tenon.sh/provider/jointoken"
)

const (
	web, spread = 3, 3 // pods
	// patience is how long a step may take. It takes seconds where nothing is wrong; a busy machine may need many times that.
	patience = 2 * time.Minute
)

// journey is the life of some machines, told on a screen.
type journey struct {
	*world
	*screen
	prefix string // of the names of machines, before those of their claims
}

// TestMachinesOfAzureComeAreEvictedAndLeaveNothingBehind is the whole life of machines on Azure. It is also make demo-azure.
func TestMachinesOfAzureComeAreEvictedAndLeaveNothingBehind(t *testing.T) {
	j := newJourney(t, "A local cluster, and a subscription of Azure in a server of our own", newWorld)
	j.step("subscription", "Azure Resource Manager at "+j.URL+": resource group "+azuretest.Group+" with a subnet, and an image of Ubuntu in a gallery")
	controller := j.start()
	j.step("controller", strings.Join(controller.Args[:2], " ")+" --cloud-provider azure --provision-mode userdata --join-tokens")
	class := j.classBecomesReady("testdata/pool.yaml")
	j.step("AKSNodeClass", "the newest version of its image is "+short(class.Status.Images[0].ID), "its user data is a cloud-config for kubeadm, with a join token")
	without := j.podsGetSpotMachines()
	first := j.claims()[0]
	j.joinedLongAgo(&first)
	j.zonesGetMachines(without)
	j.tokenGoes(&first)
	j.machineIsEvicted()
	j.idleMachinesGo()
	j.nothingIsLeft()
	j.summary()
}

// TestMachinesOfAKSComeAreEvictedAndLeaveNothingBehind is the same in a cluster of AKS, whose images start the kubelet. It is the second
// half of make demo-azure.
func TestMachinesOfAKSComeAreEvictedAndLeaveNothingBehind(t *testing.T) {
	j := newJourney(t, "The same in a cluster of AKS", newAKS)
	j.prefix = "aks-"
	j.step("subscription", "Azure Resource Manager at "+j.URL+": resource group "+nodeGroup+" with AKS's subnet, load balancer and security group; AKS's community gallery")
	controller := j.start()
	j.step("controller", strings.Join(controller.Args[:2], " ")+" --cloud-provider azure --provision-mode aksscriptless")
	class := j.classBecomesReady("testdata/akspool.yaml")
	j.step("AKSNodeClass", "the newest version of AKS's image is "+short(class.Status.Images[0].ID), "its scripts start the kubelet of version "+j.version)
	without := j.podsGetSpotMachines()
	j.zonesGetMachines(without)
	if n := len(j.Calls("VirtualMachineExtensions_CreateOrUpdate")); n != 0 {
		j.Errorf("%d machines of a cloud that is not Microsoft's got an extension of AKS's", n)
	}
	j.machineIsEvicted()
	j.idleMachinesGo()
	j.nothingIsLeft()
	j.summary()
}

func newJourney(t *testing.T, where string, build func(testing.TB) *world) *journey {
	t.Helper()
	s := newScreen(t)
	s.chapter("%s", where)
	local := playgroundtest.Get(t)
	s.step("cluster", "etcd, kube-apiserver, kube-scheduler, kube-controller-manager; KWOK plays the kubelets", "KUBECONFIG="+local.Kubeconfig())
	return &journey{world: build(t), screen: s}
}

func (j *journey) classBecomesReady(pool string) *azurev1beta1.AKSNodeClass {
	j.TB.Helper()
	j.chapter("kubectl apply -f endtoend/azure/%s -f endtoend/azure/testdata/pods.yaml", pool)
	j.applyFile(pool)
	j.applyFile("testdata/pods.yaml")
	class := &azurev1beta1.AKSNodeClass{}
	j.until(patience, func() (string, bool) {
		j.must(j.Get(j, client.ObjectKey{Name: "default"}, class))
		return fmt.Sprintf("the class says %+v", class.Status.Conditions), v1.IsTrue(class, v1.ConditionReady)
	})
	return class
}

// soldOut is the word by which Azure has no spot machines of a size in a zone. It finds out after it has accepted the call.
const soldOut = "OverconstrainedZonalAllocationRequest"

// podsGetSpotMachines has the first machine be the cheapest, spot, in the next zone where the first has none. It returns the zone
// that is sold out.
func (j *journey) podsGetSpotMachines() (without string) {
	j.chapter("Deployment web: 0 → %d pods of 1 cpu, batch: 0 → 1; the zone that is asked first has no spot machines left", web)
	j.Subscription.Fail("VirtualMachines_CreateOrUpdate", azuretest.Fault{Code: soldOut, Message: "Allocation failed.", Async: true, Times: 1})
	j.scale("web", web)
	j.scale("batch", 1)
	j.until(patience, func() (string, bool) {
		n := len(j.pods(""))
		return fmt.Sprintf("%d pods", n), n == web+1
	})
	j.step("pods pending", fmt.Sprintf("%d pods wait: kube-scheduler finds no node for them", web+1))
	var refused azuretest.Machine
	j.until(patience, func() (string, bool) {
		for _, m := range j.Machines() {
			refused = m
		}
		return "no machine was asked for; claims: " + describe(j.claims()), refused.State == "Failed"
	})
	without = azuretest.Location + "-" + refused.Zone
	j.Limit(azuretest.Offering{Zone: refused.Zone, CapacityType: v1.CapacityTypeSpot}, 0, soldOut)
	j.step("sold out", fmt.Sprintf("%s: %s in %s, %s, was accepted, and has then failed", refused.Name, refused.Size.Name, without, refused.CapacityType))
	claims := j.machinesAreStarted(nil, 1)
	if l := claims[0].Labels; j.prefix+claims[0].Name != refused.Name || l[v1.CapacityTypeLabelKey] != v1.CapacityTypeSpot || l[corev1.LabelTopologyZone] == without {
		j.Errorf("claim %s has a machine, labels %v: want one of %s, spot, in another zone than %s", claims[0].Name, l, refused.Name, without)
	}
	j.nodesJoin()
	j.podsRun("web", web)
	j.podsRun("batch", 1)
	return without
}

// zonesGetMachines asks for a machine in each zone: it is on-demand in the one that has no spot, and nobody asks there for spot again.
func (j *journey) zonesGetMachines(without string) {
	j.chapter("Deployment spread: 0 → %d pods of 3.5 cpu, one in each zone; there is still no spot in %s", spread, without)
	before := j.claims()
	asked := len(j.Calls("VirtualMachines_CreateOrUpdate"))
	j.scale("spread", spread)
	claims := j.machinesAreStarted(before, spread)
	for _, c := range claims {
		want := v1.CapacityTypeSpot
		if c.Labels[corev1.LabelTopologyZone] == without {
			want = v1.CapacityTypeOnDemand
		}
		if kind := c.Labels[v1.CapacityTypeLabelKey]; kind != want {
			j.Errorf("claim %s in %s is %s, want %s", c.Name, c.Labels[corev1.LabelTopologyZone], kind, want)
		}
	}
	if asked := len(j.Calls("VirtualMachines_CreateOrUpdate")) - asked; asked != spread {
		j.Errorf("%d machines were asked for, want %d: it is known that there is no spot in %s", asked, spread, without)
	}
	j.nodesJoin()
	j.podsRun("spread", spread)
	zones := map[string]bool{}
	for _, n := range j.nodes() {
		zones[n.Labels[corev1.LabelTopologyZone]] = true
	}
	if len(zones) != spread {
		j.Errorf("the nodes are in zones %v, want %d", zones, spread)
	}
}

// machinesAreStarted waits until there are n claims beside those that were there before, and each has its machine.
func (j *journey) machinesAreStarted(before []v1.NodeClaim, n int) (claims []v1.NodeClaim) {
	j.TB.Helper()
	j.until(patience, func() (string, bool) {
		claims = slices.DeleteFunc(j.claims(), func(c v1.NodeClaim) bool {
			return slices.ContainsFunc(before, func(old v1.NodeClaim) bool { return old.UID == c.UID })
		})
		waits := slices.ContainsFunc(claims, func(c v1.NodeClaim) bool { return c.Status.ProviderID == "" })
		return "claims: " + describe(claims), len(claims) == n && !waits
	})
	var details []string
	for i := range claims {
		details = append(details, j.checkMachine(&claims[i]))
	}
	j.step("machines", details...)
	return claims
}

// checkMachine compares a claim with what runs in the resource group, and says what that is.
func (j *journey) checkMachine(c *v1.NodeClaim) string {
	j.TB.Helper()
	m := j.machine(j.prefix + c.Name)
	if m == nil || !m.Runs() || c.Status.ProviderID != azurev1beta1.OneCase("azure://"+m.ID) {
		j.Fatalf("claim %s has machine %s; its machine is %+v", c.Name, c.Status.ProviderID, m)
	}
	tags := j.Tags(m.ID)
	for key, want := range map[string]string{
		azurev1beta1.ClusterTagKey: cluster, v1.NodePoolLabelKey: "default", azurev1beta1.NodeClassLabelKey: "default", v1.MachineClaimUIDAnnotationKey: string(c.UID),
	} {
		if have := tags[strings.ReplaceAll(key, "/", "_")]; have != want {
			j.Errorf("machine %s has tag %s=%q, want %q", m.Name, key, have, want)
		}
	}
	zone := azuretest.Location + "-" + m.Zone
	if l := c.Labels; m.Size.Name != l[corev1.LabelInstanceTypeStable] || zone != l[corev1.LabelTopologyZone] || m.CapacityType != l[v1.CapacityTypeLabelKey] {
		j.Errorf("machine %s is %s in %s, %s; its claim says %v", m.Name, m.Size.Name, zone, m.CapacityType, l)
	}
	return fmt.Sprintf("%s: %s in %s, %s", m.Name, j.paint("1", m.Size.Name), zone, m.CapacityType)
}

// nodesJoin waits for the Nodes that the machines register, and compares what these were told with their claims.
func (j *journey) nodesJoin() {
	j.TB.Helper()
	j.until(patience, func() (string, bool) {
		for _, c := range j.claims() {
			if c.DeletionTimestamp == nil && !v1.IsTrue(&c, v1.ConditionInitialized) {
				return fmt.Sprintf("claim %s: %+v", c.Name, c.Status.Conditions), false
			}
		}
		return "", true
	})
	var details []string
	nodes := j.nodes()
	for _, c := range j.claims() {
		i := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Spec.ProviderID == c.Status.ProviderID })
		if c.DeletionTimestamp != nil || i < 0 {
			continue // it is going
		}
		told := j.joiner.told(j.prefix + c.Name)
		for key, want := range c.Labels {
			if have, is := told.labels[key]; have != want && (is || strings.Contains(key, "karpenter")) {
				j.Errorf("machine %s was told label %s=%q, its claim says %q", c.Name, key, have, want)
			}
		}
		if !slices.Contains(told.taints, v1.UnregisteredTaint()) {
			j.Errorf("machine %s was not told to register taint %s", c.Name, v1.UnregisteredTaintKey)
		}
		for name, want := range c.Status.Allocatable {
			if have := nodes[i].Status.Allocatable[name]; have.Cmp(want) < 0 {
				j.Errorf("node %s has %s %s, its claim was promised %s", c.Name, have.String(), name, want.String())
			}
		}
		details = append(details, fmt.Sprintf("%s in %s, %s cpu for pods", nodes[i].Name, nodes[i].Labels[corev1.LabelTopologyZone], nodes[i].Status.Allocatable.Cpu()))
	}
	j.step("nodes join", append(details, "as they were told: token, labels, taints, number of pods")...)
}

// podsRun waits until all pods of a Deployment run on nodes that are there: those of one that was removed are for a while still said to run.
func (j *journey) podsRun(app string, replicas int) {
	j.TB.Helper()
	j.until(patience, func() (string, bool) {
		nodes, n := j.nodes(), 0
		for _, p := range j.running(app) {
			if slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == p.Spec.NodeName }) {
				n++
			}
		}
		return fmt.Sprintf("%d of %d pods of %s run; claims: %s", n, replicas, app, describe(j.claims())), n == replicas
	})
	j.step("pods running", fmt.Sprintf("%d of %d of %s", replicas, replicas, app))
}

// joinedLongAgo has a claim have become a node six minutes ago: its token stays for five after that, and nobody wants to wait for them.
func (j *journey) joinedLongAgo(claim *v1.NodeClaim) {
	j.TB.Helper()
	if n := len(j.tokens(claim.UID)); n != 1 {
		j.Errorf("claim %s, which has just registered, has %d tokens", claim.Name, n)
	}
	who, err := j.joiner.whoIs(j, j.joiner.told(j.prefix+claim.Name).token)
	if err != nil || !slices.Contains(who.Groups, jointoken.DefaultGroup) || !strings.HasPrefix(who.Username, "system:bootstrap:") {
		j.Errorf("the API server takes who bears the token of claim %s for %+v, %v", claim.Name, who, err)
	}
	j.until(patience, func() (string, bool) {
		j.must(j.Get(j, client.ObjectKeyFromObject(claim), claim))
		old := claim.DeepCopy()
		for i := range claim.Status.Conditions {
			if c := &claim.Status.Conditions[i]; c.Type == v1.ConditionRegistered {
				c.LastTransitionTime = metav1.NewTime(time.Now().Add(-6 * time.Minute))
			}
		}
		err := j.Status().Patch(j, claim, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}))
		if err != nil && !apierrors.IsConflict(err) {
			j.must(err)
		}
		return fmt.Sprint(err), err == nil
	})
}

// tokenGoes waits until the token of a claim is gone that has been a node for long. Those of the others stay.
func (j *journey) tokenGoes(claim *v1.NodeClaim) {
	j.chapter("Six minutes after node %s has joined", claim.Name)
	j.until(patience, func() (string, bool) {
		n := len(j.tokens(claim.UID))
		return fmt.Sprintf("there are %d tokens of claim %s", n, claim.Name), n == 0
	})
	token := j.joiner.told(j.prefix + claim.Name).token
	j.until(patience, func() (string, bool) {
		who, err := j.joiner.whoIs(j, token)
		return fmt.Sprintf("the API server takes its bearer for %+v, %v", who, err), apierrors.IsUnauthorized(err)
	})
	j.step("token", "its Secret is gone from kube-system, and the API server lets nobody in with it")
	for _, c := range j.claims() {
		if n := len(j.tokens(c.UID)); c.UID != claim.UID && time.Since(c.CreationTimestamp.Time) < 4*time.Minute && n != 1 {
			j.Errorf("claim %s, which has just registered, has %d tokens", c.Name, n)
		}
	}
}

// tokens are the Secrets of a claim's tokens.
func (j *journey) tokens(uid types.UID) []corev1.Secret {
	j.TB.Helper()
	var secrets corev1.SecretList
	j.must(j.List(j, &secrets, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{jointoken.ClaimLabelKey: string(uid)}))
	return secrets.Items
}

// machineIsEvicted plays what node-problem-detector and then Azure do. The pods that may be evicted have moved by then; a disruption
// budget keeps the last one until Azure takes the machine from under it.
func (j *journey) machineIsEvicted() {
	name := j.running("batch")[0].Spec.NodeName
	j.chapter("Azure takes spot machine %s back: PreemptionScheduled on its Node, as node-problem-detector writes it", name)
	before := j.claims()
	j.must(j.joiner.condition(j, name, corev1.NodeCondition{Type: "PreemptionScheduled", Status: corev1.ConditionTrue, Reason: "Preempt", Message: "Preempt"}))
	old := &corev1.Node{}
	j.until(patience, func() (string, bool) {
		j.must(j.Get(j, client.ObjectKey{Name: name}, old))
		closed := slices.ContainsFunc(old.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1.DisruptedTaintKey })
		return fmt.Sprintf("node %s takes pods", name), closed
	})
	j.step("heard", "its node takes no more pods")
	j.machinesAreStarted(before, 1)
	j.until(patience, func() (string, bool) {
		moved := len(slices.DeleteFunc(j.running("web"), func(p corev1.Pod) bool { return p.Spec.NodeName == name }))
		return fmt.Sprintf("%d of %d pods of web have left node %s; claims: %s", moved, web, name, describe(j.claims())), moved == web
	})
	if m := j.machine(name); m == nil || !m.Runs() {
		j.Fatalf("machine %s went before its last pod: %+v", name, m)
	}
	j.step("pods moved", fmt.Sprintf("%d of %d of web run elsewhere, and machine %s still runs", web, web, name))
	j.Evict(name)
	j.step("evicted", name+" is taken away, from under the pod that nobody may evict")
	j.until(patience, func() (string, bool) {
		err := j.Get(j, client.ObjectKey{Name: name}, old)
		there := slices.ContainsFunc(j.claims(), func(c v1.NodeClaim) bool { return j.prefix+c.Name == name })
		return name + " or its claim is still there", j.machine(name) == nil && !there && apierrors.IsNotFound(err)
	})
	j.step("gone", "its Node and its NodeClaim are removed")
	for _, p := range j.pods("batch") {
		if p.Spec.NodeName == name { // kube-controller-manager does the same a minute later
			j.must(client.IgnoreNotFound(j.Delete(j, &p, client.GracePeriodSeconds(0))))
		}
	}
	j.nodesJoin()
	j.podsRun("batch", 1)
}

// idleMachinesGo lets machines be consolidated when there are fewer pods.
func (j *journey) idleMachinesGo() {
	had := len(j.Machines())
	j.chapter("Deployment spread: %d → 0 pods; the pool is consolidated from now on", spread)
	j.scale("spread", 0)
	j.must(j.Patch(j, &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, merge(`{"spec":{"disruption":{"consolidateAfter":"2s"}}}`)))
	j.until(patience, func() (string, bool) {
		used := map[string]bool{}
		for _, p := range j.running("web") {
			used[p.Spec.NodeName] = true
		}
		claims, machines := j.claims(), j.Machines()
		idle := slices.ContainsFunc(machines, func(m azuretest.Machine) bool { return !used[m.Name] || m.CapacityType != v1.CapacityTypeSpot })
		return fmt.Sprintf("%d machines, %d with pods; claims: %s", len(machines), len(used), describe(claims)), !idle && len(claims) == len(machines) && len(used) == len(machines) && len(j.running("web")) == web
	})
	left := j.Machines()
	if len(left) >= had {
		j.Errorf("%d machines of %d are left", len(left), had)
	}
	j.step("terminated", fmt.Sprintf("%d of %d machines, which no pod was left on", had-len(left), had))
	j.step("left", fmt.Sprintf("%s, %s, with all pods of web and batch", left[0].Size.Name, left[0].CapacityType))
}

func (j *journey) nothingIsLeft() {
	j.chapter("kubectl delete deployment web batch, nodepool default, aksnodeclass default")
	j.step("before", j.inventory())
	for _, name := range []string{"web", "batch"} {
		j.must(j.Delete(j, deployment(name), client.PropagationPolicy("Background")))
	}
	j.must(j.Delete(j, &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}))
	class := &azurev1beta1.AKSNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	j.must(j.Delete(j, class))
	j.until(patience, func() (string, bool) {
		err := j.Get(j, client.ObjectKeyFromObject(class), class)
		text := j.inventory()
		return text + "; claims: " + describe(j.claims()), strings.HasPrefix(text, "0 ") && len(j.nodes()) == 0 && apierrors.IsNotFound(err) &&
			len(j.Names("Microsoft.Network/networkInterfaces"))+len(j.Names("Microsoft.Compute/disks")) == 0
	})
	j.step("after", j.inventory())
}

// inventory is what the resource group holds of machines.
func (j *journey) inventory() string {
	return fmt.Sprintf("%d virtual machines, %d network interfaces, %d disks", len(j.Names("Microsoft.Compute/virtualMachines")),
		len(j.Names("Microsoft.Network/networkInterfaces")), len(j.Names("Microsoft.Compute/disks")))
}

func (j *journey) summary() {
	counts := map[string]int{}
	calls := j.Calls("")
	for _, call := range calls {
		counts[call.Operation]++
	}
	j.line("")
	j.line("%s", j.paint("1", fmt.Sprintf("What Azure was asked, in %d calls", len(calls))))
	for _, operation := range slices.Sorted(maps.Keys(counts)) {
		j.line("  %4d  %s", counts[operation], operation)
	}
	j.line("")
	if !j.TB.Failed() {
		j.line("%s", j.paint("32", fmt.Sprintf("All %d steps were reached, and nothing is left in the resource group.", j.steps)))
	}
}

// short is an ID from its gallery on.
func short(id string) string { return id[max(0, strings.Index(strings.ToLower(id), "galleries/")):] }

func describe(claims []v1.NodeClaim) string {
	var lines []string
	for i := range claims {
		words := []string{claims[i].Name, claims[i].Status.ProviderID}
		for _, c := range claims[i].Status.Conditions {
			if c.Status != "True" {
				words = append(words, fmt.Sprintf("%s=%s (%s)", c.Type, c.Status, c.Message))
			}
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return "[" + strings.Join(lines, "; ") + "]"
}
