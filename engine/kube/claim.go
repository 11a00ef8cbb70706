package kube

import (
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// PlannedPodsAnnotation, on a NodeClaim, lists the UIDs of the pods for which its machine was started, separated by commas. With it a plan
// outlives the process that made it: until these pods are bound, their room is reserved.
const PlannedPodsAnnotation = v1.PlannedPodsAnnotationKey

// mostPlannedPods bounds the annotation's size: the annotations of one object may have 256 KiB together.
const mostPlannedPods = 4000

// NewClaim returns the NodeClaim of a launch. The API server completes its name. It has its finalizer from the start, so that a deleted claim
// never leaves a machine behind.
func NewClaim(pool *v1.NodePool, launch engine.Launch) *v1.NodeClaim {
	template := pool.Spec.Template.DeepCopy()
	ref := template.Spec.NodeClassRef
	labels := map[string]string{}
	maps.Copy(labels, template.Labels)
	maps.Copy(labels, launch.Labels)
	labels[v1.NodePoolLabelKey] = pool.Name
	labels[ref.LabelKey()] = ref.Name
	annotations := map[string]string{}
	maps.Copy(annotations, template.Annotations)
	annotations[v1.NodePoolHashAnnotationKey] = pool.Hash()
	annotations[v1.NodePoolHashVersionAnnotationKey] = v1.HashVersion
	annotations[v1.MinValuesRelaxedAnnotationKey] = strconv.FormatBool(launch.MinValuesRelaxed)
	if launch.PriceOverlaid {
		annotations[v1.PriceOverlayAppliedAnnotationKey] = "true"
	}
	if len(launch.Added) > 0 {
		annotations[v1.CapacityOverlayAppliedAnnotationKey] = "true"
		annotations[v1.AddedResourcesAnnotationKey] = addedResources(launch)
	}
	if len(launch.DeviceDrivers) > 0 {
		annotations[v1.RequestedDRADriversAnnotationKey] = strings.Join(launch.DeviceDrivers, ",")
	}
	if len(launch.Gangs) > 0 {
		annotations[v1.GangsAnnotationKey] = strings.Join(launch.Gangs, ",")
	}
	if uids := uids(launch); uids != "" {
		annotations[PlannedPodsAnnotation] = uids
	}
	block := true
	return &v1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: pool.Name + "-",
			Labels:       labels,
			Annotations:  annotations,
			Finalizers:   []string{v1.TerminationFinalizer},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1.GroupVersion.String(), Kind: "NodePool", Name: pool.Name, UID: pool.UID, BlockOwnerDeletion: &block,
			}},
		},
		Spec: v1.NodeClaimSpec{
			Taints:                 template.Spec.Taints,
			StartupTaints:          template.Spec.StartupTaints,
			Requirements:           launch.Requirements,
			Resources:              v1.ResourceRequirements{Requests: claimRequests(launch.Requests)},
			NodeClassRef:           ref,
			TerminationGracePeriod: template.Spec.TerminationGracePeriod,
			ExpireAfter:            template.Spec.ExpireAfter,
		},
	}
}

// claimRequests leaves out the pseudo-resources that count machines and attached volumes, because no node reports them.
func claimRequests(list corev1.ResourceList) corev1.ResourceList {
	out := maps.Clone(list)
	delete(out, v1.ResourceNodes)
	maps.DeleteFunc(out, func(name corev1.ResourceName, _ resource.Quantity) bool {
		return strings.HasPrefix(string(name), AttachPrefix)
	})
	return out
}

func uids(l engine.Launch) string {
	var uids []string
	for _, pod := range l.Pods {
		if pod.UID != "" && len(uids) < mostPlannedPods {
			uids = append(uids, string(pod.UID))
		}
	}
	slices.Sort(uids)
	return strings.Join(uids, ",")
}

// GangsOf names the PodGroups for which the claim's machine was started.
func GangsOf(claim *v1.NodeClaim) []string {
	if text := claim.Annotations[v1.GangsAnnotationKey]; text != "" {
		return strings.Split(text, ",")
	}
	return nil
}

// addedResources returns the claim's annotation with the resources that NodeOverlays add to a launch.
func addedResources(l engine.Launch) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(l.Added)) {
		out = append(out, string(name)+"="+l.Added[name])
	}
	return strings.Join(out, ",")
}

// OverlayOf names the NodeOverlay that adds the resource to the claim's machine. It returns "" if none does.
func OverlayOf(claim *v1.NodeClaim, name corev1.ResourceName) string {
	for part := range strings.SplitSeq(claim.Annotations[v1.AddedResourcesAnnotationKey], ",") {
		if resource, overlay, ok := strings.Cut(part, "="); ok && resource == string(name) {
			return overlay
		}
	}
	return ""
}

// PlannedPods lists the UIDs of the pods for which the claim's machine was started.
func PlannedPods(claim *v1.NodeClaim) []string {
	if text := claim.Annotations[PlannedPodsAnnotation]; text != "" {
		return strings.Split(text, ",")
	}
	return nil
}

// IsPlannedFor reports whether the machine was started for listed pods.
func IsPlannedFor(claim *v1.NodeClaim) bool { return claim.Annotations[PlannedPodsAnnotation] != "" }

const (
	// softShare and softMost bound the time before its end in which a machine may be replaced: a tenth of its life, at most a day.
	softShare = 10
	softMost  = 24 * time.Hour
	// jitterShare is the part of that time, in quarters, over which the start times of equally old machines are spread.
	jitterShare = 3
)

// SoftExpiry returns the time from which the claim's machine may be replaced because of its age, if budgets and pods allow it; ok is false if the
// machine never expires. At the end of its life, which is creation plus expireAfter, the machine is removed regardless of both.
func SoftExpiry(claim *v1.NodeClaim) (at time.Time, ok bool) {
	if claim.Spec.ExpireAfter.Duration == nil {
		return time.Time{}, false
	}
	life := *claim.Spec.ExpireAfter.Duration
	window := max(min(life/softShare, softMost), 0)
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(claim.UID)) // never fails
	jitter := time.Duration(float64(window) / 4 * jitterShare * float64(Mixed(hash.Sum64())>>11) / (1 << 53))
	return claim.CreationTimestamp.Add(life - window + jitter), true
}

func ExpiresAt(claim *v1.NodeClaim) time.Time { return claim.CreationTimestamp.Add(ExpireAfter(claim)) }

// TraitOf returns the value of a trait of the claim's machine.
func TraitOf(claim *v1.NodeClaim, key string) (value string, there bool) {
	if key == engine.ImageTrait {
		return claim.Status.ImageID, claim.Status.ImageID != ""
	}
	if value, there = claim.Annotations[key]; !there {
		value, there = claim.Labels[key]
	}
	return value, there
}

// HasJoined reports whether the claim's machine has had a registered node, even if that node is gone.
func HasJoined(claim *v1.NodeClaim) bool {
	return claim.Status.NodeName != "" || v1.IsTrue(claim, v1.ConditionRegistered)
}

// DriversAskedFor lists the drivers whose devices are claimed by the pods for which the machine was started.
func DriversAskedFor(claim *v1.NodeClaim) []string {
	if text := claim.Annotations[v1.RequestedDRADriversAnnotationKey]; text != "" {
		return strings.Split(text, ",")
	}
	return nil
}

// DrainEnds returns the deadline for the pods of a claim that is being deleted. It returns the zero value if there is none.
func DrainEnds(claim *v1.NodeClaim) time.Time {
	if claim == nil || claim.DeletionTimestamp == nil {
		return time.Time{}
	}
	if text, ok := claim.Annotations[v1.NodeClaimTerminationTimestampAnnotationKey]; ok {
		at, _ := time.Parse(time.RFC3339, text) // an unreadable time is no deadline
		return at
	}
	if period := claim.Spec.TerminationGracePeriod; period != nil {
		return claim.DeletionTimestamp.Add(period.Duration)
	}
	return time.Time{}
}
