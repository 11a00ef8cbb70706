package dra

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ExtendedClaim returns the claim that kube-scheduler makes for a pod that requests devices as extended resources, on a node without such
// resources of its own. asked holds these resources, classOf finds the DeviceClass of each. It returns nil if no container requests any.
func ExtendedClaim(pod *corev1.Pod, asked corev1.ResourceList, classOf func(corev1.ResourceName) *resourcev1.DeviceClass) *resourcev1.ResourceClaim {
	var requests []resourcev1.DeviceRequest
	names := slices.Sorted(maps.Keys(asked))
	for _, name := range names {
		requests = append(requests, extendedRequests(pod, name, classOf(name).Name)...)
	}
	if len(requests) == 0 {
		return nil
	}
	slices.SortFunc(requests, func(a, b resourcev1.DeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	out := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "for " + joinedNames(names)}}
	out.Spec.Devices.Requests = requests
	return out
}

func joinedNames(names []corev1.ResourceName) string {
	var texts []string
	for _, name := range names {
		texts = append(texts, string(name))
	}
	return strings.Join(texts, " and ")
}

// extendedRequests returns the requests for one resource: one for each container that keeps running. An init container that ends uses the
// devices of containers that start after it; one further request covers the largest lack of such an init container.
func extendedRequests(pod *corev1.Pod, name corev1.ResourceName, class string) (out []resourcev1.DeviceRequest) {
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	request := func(i int, n int64) resourcev1.DeviceRequest {
		at := slices.Index(slices.Sorted(maps.Keys(containers[i].Resources.Requests)), name)
		return resourcev1.DeviceRequest{Name: fmt.Sprintf("container-%d-request-%d", i, at), Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: n}}
	}
	ends := func(i int) bool {
		policy := containers[i].RestartPolicy
		return i < len(pod.Spec.InitContainers) && (policy == nil || *policy != corev1.ContainerRestartPolicyAlways)
	}
	later, most, of := int64(0), int64(0), -1
	for i := len(containers) - 1; i >= 0; i-- {
		q := containers[i].Resources.Requests[name]
		n, whole := q.AsInt64()
		switch {
		case !whole || n <= 0:
		case !ends(i):
			later += n
			out = append(out, request(i, n))
		case n-later > 0 && n-later >= most: // the first of equal ones counts
			most, of = n-later, i
		}
	}
	if of >= 0 {
		out = append(out, request(of, most))
	}
	return out
}
