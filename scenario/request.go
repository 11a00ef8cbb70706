package scenario

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"tenon.sh/api/autoscalingv1"
	"tenon.sh/engine"
)

// request reads request NAME class=atomic count=10 parameter=noRetry:true provisioned=5m and the words of a pod for its PodTemplate: a
// ProvisioningRequest. The class is atomic, check or another name.
func (b *builder) request(name word, r *reader) error {
	o := &autoscalingv1.ProvisioningRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: autoscalingv1.GroupVersion.String(), Kind: "ProvisioningRequest"},
	}
	o.Spec.ProvisioningClassName = autoscalingv1.BestEffortAtomic
	o.Spec.PodSets = []autoscalingv1.PodSet{{PodTemplateRef: autoscalingv1.Reference{Name: name.text}, Count: 1}}
	var words []word
	template := true
	for r.more() {
		w := r.next()
		if w.text == "no-template" {
			template = false
			continue
		}
		mine, err := b.requestWord(o, w)
		if err != nil {
			return err
		}
		if !mine {
			words = append(words, w)
		}
	}
	p, err := b.readPod(name, &reader{of: r.of, words: words})
	if err != nil {
		return err
	}
	o.ObjectMeta = b.meta(p.pod.Namespace, name.text)
	o.Generation, o.CreationTimestamp = 1, b.ago(p.age)
	b.snapshot.ProvisioningRequests = append(b.snapshot.ProvisioningRequests, o)
	if !template {
		return nil
	}
	b.addPodTemplate(name.text, p)
	return nil
}

// requestWord reads a word about the request. It returns false for words about its pods.
func (b *builder) requestWord(o *autoscalingv1.ProvisioningRequest, w word) (mine bool, err error) {
	key, value := w.cut()
	is := func(kind, reason string) error {
		var since time.Duration
		if value != "" {
			since, err = w.duration()
		}
		o.Status.Conditions = append(o.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: b.ago(since),
		})
		return err
	}
	switch key {
	case "class":
		o.Spec.ProvisioningClassName = value
		switch value {
		case "check":
			o.Spec.ProvisioningClassName = autoscalingv1.CheckCapacity
		case "atomic":
			o.Spec.ProvisioningClassName = autoscalingv1.BestEffortAtomic
		}
	case "count":
		o.Spec.PodSets[0].Count, err = w.number32()
	case "parameter":
		name, text, _ := strings.Cut(value, ":")
		o.Spec.Parameters = map[string]string{name: text}
	case "provisioned":
		err = is(autoscalingv1.ConditionProvisioned, autoscalingv1.CapacityIsFound)
	case "failed":
		err = is(autoscalingv1.ConditionFailed, autoscalingv1.Expired)
	case "expired":
		err = is(autoscalingv1.ConditionBookingExpired, autoscalingv1.ReservationExpired)
	default:
		return false, nil
	}
	return true, err
}

// addRequest reads a ProvisioningRequest of a file, in either version.
func (m *manifest) addRequest(u *unstructured.Unstructured) error {
	if u.GroupVersionKind().Version != autoscalingv1.V1Beta1.Version {
		return decode(m, u, &m.snapshot.ProvisioningRequests)
	}
	older := &autoscalingv1.ProvisioningRequestV1Beta1{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, older); err != nil {
		return wrongType(u, older, err)
	}
	m.snapshot.ProvisioningRequests = append(m.snapshot.ProvisioningRequests, autoscalingv1.FromV1Beta1(older))
	return nil
}

// printRequests prints the result of each ProvisioningRequest, and its new conditions.
func printRequests(out *strings.Builder, requests []engine.RequestRoom) {
	for _, r := range requests {
		fmt.Fprintf(out, "request %s/%s: %d, %d fit, %d to come\n", r.Namespace, r.Name, r.Size, r.Existing, r.Coming)
		if r.Status == nil {
			continue
		}
		for _, c := range r.Status.Conditions {
			fmt.Fprintf(out, "  %s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
}

// answerRequests copies the plan's statuses into the requests.
func answerRequests(s *engine.Snapshot, plan *engine.Plan) {
	for _, room := range plan.ProvisioningRequests {
		for i, o := range s.ProvisioningRequests {
			if room.Status != nil && o.UID == room.UID {
				next := *o
				next.Status = *room.Status
				s.ProvisioningRequests[i] = &next
			}
		}
	}
}
