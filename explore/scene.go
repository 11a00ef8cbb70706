package explore

import (
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tenon.sh/api/kwokv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/engine/lifecycle"
	"tenon.sh/provider/catalog"
	"tenon.sh/provider/simulated"
)

// diskDriver is the driver of all volumes.
const diskDriver = "disk.example.com"

// fixedPool is the name of the pool with replicas, if there is one.
const fixedPool = "fixed"

// scene has the random choices of a run: the mix of faults, and the delays.
type scene struct {
	// lag is the longest delay until the process sees a change.
	lag time.Duration
	// trouble is the weight of faults, from 0 for none to 3.
	trouble int
	// eager is the relative weight of each kind of step.
	eager  map[string]int
	serial int
	// until is the time at which the last of the cloud's lasting faults ends.
	until time.Time
	// claims means that pods claim devices. templates are the deleted templates of claims.
	claims    bool
	templates []*resourcev1.ResourceClaimTemplate
	// unbuffered is the time at which the CapacityBuffer was last deleted.
	unbuffered time.Time
}

// taste returns the factor of an action's weight. It is 8 for ordinary actions.
func (s *scene) taste(a action) int {
	if a.fault {
		return s.trouble
	}
	if n, ok := s.eager[a.kind]; ok {
		return n
	}
	return 8
}

// smallCatalog has a few types in two zones: enough for different choices, and few enough for fast plans.
func smallCatalog() []engine.InstanceType {
	names := []string{"c-2x-amd64-linux", "c-4x-amd64-linux", "s-4x-amd64-linux", "c-8x-amd64-linux"}
	var types []engine.InstanceType
	for _, t := range catalog.KWOK() {
		if !slices.Contains(names, t.Name) {
			continue
		}
		t.Offerings = slices.DeleteFunc(slices.Clone(t.Offerings), func(o engine.Offering) bool { return o.Zone > "test-zone-b" })
		types = append(types, t)
	}
	return types
}

// stage creates the first objects and draws the run's random choices.
func (w *world) stage() {
	w.scene = scene{
		lag: pick(w, 200*time.Millisecond, time.Second, 4*time.Second, 4*time.Second), trouble: pick(w, 0, 1, 1, 2, 3), eager: map[string]int{},
	}
	for _, kind := range []string{"deliver", "call", "pass", "work", "kube-scheduler", "kubelet"} {
		w.scene.eager[kind] = pick(w, 2, 8, 8, 16)
	}
	w.catalog = w.shared.catalog
	if w.scene.claims = claimsAct(w.seed); w.scene.claims {
		w.catalog = w.shared.claimable
		w.stageDevices()
	}
	if w.opt.Buffers {
		w.scene.trouble = max(w.scene.trouble, 1)
		w.stageBuffer()
	}
	cloud, err := simulated.NewCloud(simulated.Config{Seed: w.seed, Clock: w.clock, Catalog: w.catalog, Profile: w.profile()})
	if err != nil {
		panic(err) // the catalog is always valid
	}
	w.cloud = cloud
	class := &kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	readyClass(class, true, w.clock.Now())
	if w.chance(12) {
		readyClass(class, false, w.clock.Now().Add(-time.Hour))
	}
	_, _ = w.api.create(class)
	pools := []*v1.NodePool{w.newPool("general")}
	if w.chance(4) {
		pools = append(pools, w.newPool("second"))
	}
	for i := range 1 + w.draw(3) {
		w.newReplicaSet(fmt.Sprintf("web%d", i), 1+w.draw(4))
	}
	if w.chance(4) {
		w.newStatefulSet("db", 1+w.draw(2))
	}
	if w.chance(4) {
		w.newDaemonSet("agent")
	}
	for i := range w.draw(4) {
		w.newWarmNode(pick(w, pools...), i)
	}
	if w.chance(4) {
		w.newBudget("web0", pick(w, 0, 1))
	}
	if w.chance(5) {
		n := int64(w.draw(4))
		update(w.api, w.newPool(fixedPool), func(p *v1.NodePool) { p.Spec.Replicas = &n })
	}
	w.began = w.clock.Now()
	for _, s := range w.api.order {
		w.settled[s.name] = len(s.log)
	}
	w.kube.catchUp()
}

// profile draws the behaviour of the cloud.
func (w *world) profile() simulated.Profile {
	p := simulated.Profile{
		Boot:        simulated.BootModel{Fixed: pick(w, 0, 2*time.Second, 10*time.Second, 40*time.Second)},
		Termination: simulated.Stage{Median: pick(w, 0, 2*time.Second, 8*time.Second)},
		Spot:        simulated.SpotModel{Notice: 2 * time.Minute},
	}
	if w.chance(3) {
		p.Lag = simulated.LagModel{Describe: simulated.Stage{Median: time.Second}, List: 3 * time.Second}
	}
	if w.chance(25) {
		p.NeverRegisters = 0.2
	}
	return p
}

func (w *world) newPool(name string) *v1.NodePool {
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: kwokv1alpha1.GroupVersion.Group, Kind: "KWOKNodeClass", Name: "default"}
	pool.Spec.Template.Labels = map[string]string{"team": pick(w, "a", "b")}
	pool.Spec.Template.Spec.Requirements = []v1.Requirement{{Key: v1.CapacityTypeLabelKey, Operator: v1.In, Values: []string{v1.CapacityTypeOnDemand}}}
	if w.chance(8) {
		pool.Spec.Template.Spec.ExpireAfter = v1.DurationOf(pick(w, 10*time.Minute, 2*time.Hour))
	}
	if w.chance(4) {
		pool.Spec.Template.Spec.TerminationGracePeriod = &metav1.Duration{Duration: pick(w, 10*time.Second, time.Minute)}
	}
	pool.Spec.Disruption = v1.Disruption{
		ConsolidationPolicy: pick(w, v1.WhenEmpty, v1.WhenEmptyOrUnderutilized, v1.Balanced), ConsolidateAfter: v1.DurationOf(pick(w, 0, 0, 5*time.Second, 30*time.Second)),
		Budgets: []v1.Budget{{Nodes: pick(w, "1", "1", "2", "50%", "100%")}},
	}
	if w.chance(3) {
		pool.Spec.Limits = v1.Limits{v1.ResourceNodes: *resource.NewQuantity(int64(2+w.draw(3)), resource.DecimalSI)}
	} else if w.chance(4) {
		pool.Spec.Limits = v1.Limits{corev1.ResourceCPU: *resource.NewQuantity(int64(6+2*w.draw(4)), resource.DecimalSI)}
	}
	for _, c := range []string{v1.ConditionValidationSucceeded, v1.ConditionNodeClassReady} {
		v1.SetCondition(pool, c, metav1.ConditionTrue, "", "", w.clock.Now())
	}
	stored, _ := w.api.create(pool)
	return stored.(*v1.NodePool)
}

// template returns the pod template of one owner.
func (w *world) template(name string) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}}
	grace := pick(w, int64(0), 1, 5, 30)
	t.Spec.TerminationGracePeriodSeconds = &grace
	t.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(pick(w, "400m", "900m", "1500m", "3")),
		corev1.ResourceMemory: resource.MustParse(pick(w, "100Mi", "1Gi")),
	}}}}
	if w.chance(10) {
		t.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: "true"}
	}
	if w.chance(6) {
		t.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: pick(w, "test-zone-a", "test-zone-b")}
	}
	w.claimSome(name, &t)
	return t
}

func (w *world) newReplicaSet(name string, replicas int) {
	n := int32(replicas)
	_, _ = w.api.create(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: appsv1.ReplicaSetSpec{
		Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: w.template(name),
	}})
}

func (w *world) newStatefulSet(name string, replicas int) {
	n := int32(replicas)
	_, _ = w.api.create(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: w.template(name),
	}})
}

func (w *world) newDaemonSet(name string) {
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}}
	t.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(pick(w, "100m", "800m"))}}}}
	_, _ = w.api.create(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: t,
	}})
}

func (w *world) newBudget(app string, unavailable int) {
	most := intstr.FromInt32(int32(unavailable))
	w.scene.serial++
	_, _ = w.api.create(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pdb-%s-%d", app, w.scene.serial)},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &most, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
	})
}

// newWarmNode creates a machine that has been running for a while. It is empty or has room.
func (w *world) newWarmNode(pool *v1.NodePool, i int) {
	t := pick(w, w.catalog...)
	offering := engine.OfferingID{InstanceType: t.Name, Zone: pick(w, "test-zone-a", "test-zone-b"), CapacityType: v1.CapacityTypeOnDemand}
	if !w.withinLimits(pool, all[*v1.NodeClaim](w.api), t.Capacity) {
		return
	}
	name := fmt.Sprintf("%s-warm%d", pool.Name, i)
	launch := engine.Launch{NodePool: pool.Name, InstanceTypes: []string{t.Name}, Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	claim := kube.NewClaim(pool, launch)
	claim.Name, claim.GenerateName = name, ""
	claim.CreationTimestamp = metav1.NewTime(w.clock.Now().Add(-time.Hour))
	claim.UID = types.UID("claim-" + name)
	m := engine.Machine{
		ID: engine.MachineID("simulated://" + name), Claim: name, ClaimUID: string(claim.UID), Created: w.clock.Now().Add(-time.Hour),
		Labels: map[string]string{
			corev1.LabelInstanceTypeStable: t.Name, corev1.LabelTopologyZone: offering.Zone, v1.CapacityTypeLabelKey: offering.CapacityType,
			corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
		},
		Capacity: t.Capacity, Allocatable: t.Allocatable(),
	}
	w.cloud.Adopt(m, offering, w.clock.Now())
	claim = lifecycle.Launched(claim, m, claim.CreationTimestamp.Time)
	claim.Status.NodeName = name
	for _, c := range []string{v1.ConditionRegistered, v1.ConditionInitialized} {
		v1.SetCondition(claim, c, metav1.ConditionTrue, "", "", claim.CreationTimestamp.Time)
	}
	stored, _ := w.api.create(claim)
	node := w.kube.newNode(m, m.Allocatable)
	maps.Copy(node.Labels, stored.GetLabels())
	node.Labels[v1.RegisteredLabelKey], node.Labels[v1.InitializedLabelKey] = "true", "true"
	node.Spec.Taints = nil
	node.Finalizers = []string{v1.TerminationFinalizer}
	node.CreationTimestamp = claim.CreationTimestamp
	block := true
	node.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1.GroupVersion.String(), Kind: "NodeClaim", Name: name, UID: stored.GetUID(), BlockOwnerDeletion: &block}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: claim.CreationTimestamp}}
	_, _ = w.api.create(node)
	w.kube.registered[m.ID] = true
}
