package scenario

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "tenon.sh/api/v1"
)

const poolWords = "class= weight= limits= labels= annotations= taint= startup-taint= consolidate-after= consolidation= " +
	"budget= expire-after= grace= replicas= not-ready deleting " + poolAnnotationWords + ", and requirements: zone in (a,b)"

// pool reads pool NAME with its words. Omitted fields have the API server's defaults.
func (b *builder) pool(name word, r *reader) error {
	if poolNamed(&b.snapshot, name.text) != nil {
		return name.errorf("there is a pool of this name already")
	}
	thirtyDays := 720 * time.Hour
	p := &v1.NodePool{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: "NodePool"},
		ObjectMeta: b.meta("", name.text),
	}
	p.CreationTimestamp, p.Generation = b.ago(24*time.Hour), 1
	p.Status.Nodes = ptr.To(int64(0))
	p.Spec.Template.Spec.NodeClassRef = classRef(defaultClass)
	p.Spec.Template.Spec.Requirements = []v1.Requirement{}
	p.Spec.Template.Spec.ExpireAfter = v1.DurationOf(thirtyDays)
	p.Spec.Disruption = v1.Disruption{
		ConsolidateAfter:    v1.DurationOf(0),
		ConsolidationPolicy: v1.WhenEmptyOrUnderutilized,
	}
	v1.SetCondition(p, v1.ConditionValidationSucceeded, metav1.ConditionTrue, "", "", b.snapshot.Now)
	v1.SetCondition(p, v1.ConditionNodeClassReady, metav1.ConditionTrue, "", "", b.snapshot.Now)
	for r.more() {
		if err := b.poolWord(p, r); err != nil {
			return err
		}
	}
	if p.Spec.Disruption.Budgets == nil {
		p.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "10%"}}
	}
	b.snapshot.NodePools = append(b.snapshot.NodePools, p)
	return nil
}

func (b *builder) poolWord(p *v1.NodePool, r *reader) (err error) {
	template := &p.Spec.Template
	if r.atRequirement() {
		req, err := r.requirement()
		template.Spec.Requirements = append(template.Spec.Requirements, req)
		return err
	}
	w := r.next()
	key, value := w.cut()
	switch key {
	case "class":
		template.Spec.NodeClassRef = classRef(value)
	case "weight":
		n, err := w.number()
		weight := int32(n)
		p.Spec.Weight = &weight
		return err
	case "replicas":
		n, err := w.number()
		replicas := int64(n)
		p.Spec.Replicas = &replicas
		return err
	case "limits":
		list, err := w.resources()
		p.Spec.Limits = v1.Limits(list)
		return err
	case "labels":
		w.addLabels(&template.Labels)
	case "annotations":
		w.addLabels(&template.Annotations)
	case "taint":
		return addTaint(w, &template.Spec.Taints)
	case "startup-taint":
		return addTaint(w, &template.Spec.StartupTaints)
	case "consolidate-after":
		p.Spec.Disruption.ConsolidateAfter, err = w.nillableDuration()
	case "consolidation":
		p.Spec.Disruption.ConsolidationPolicy = v1.ConsolidationPolicy(value)
	case "budget":
		budget, err := w.budget()
		p.Spec.Disruption.Budgets = append(p.Spec.Disruption.Budgets, budget)
		return err
	case "expire-after":
		template.Spec.ExpireAfter, err = w.nillableDuration()
	case "grace":
		d, err := w.duration()
		template.Spec.TerminationGracePeriod = &metav1.Duration{Duration: d}
		return err
	case "not-ready":
		if value == "" {
			value = "the pool is not ready"
		}
		v1.SetCondition(p, v1.ConditionValidationSucceeded, metav1.ConditionFalse, "", value, b.snapshot.Now)
	case "deleting":
		now := metav1.NewTime(b.snapshot.Now)
		p.DeletionTimestamp, p.Finalizers = &now, []string{"example.com/wait"}
	default:
		if handled, err := b.annotationWord(p, w); handled || err != nil {
			return err
		}
		return r.unknown(w, poolWords)
	}
	return err
}

func addTaint(w word, to *[]v1.Taint) error {
	t, err := w.taint()
	*to = append(*to, v1.TaintFromCore(t))
	return err
}

// budget reads budget=10% or budget=(nodes=0 reasons=Empty,Drifted schedule="0 9 * * *" duration=8h).
func (w word) budget() (v1.Budget, error) {
	budget := v1.Budget{}
	_, value := w.cut()
	if !strings.HasPrefix(value, "(") {
		budget.Nodes = value
		return budget, nil
	}
	r, err := w.group("budget")
	if err != nil {
		return budget, err
	}
	for r.more() {
		w := r.next()
		key, value := w.cut()
		switch key {
		case "nodes":
			budget.Nodes = value
		case "reasons":
			for _, reason := range w.list() {
				budget.Reasons = append(budget.Reasons, v1.DisruptionReason(reason))
			}
		case "schedule":
			budget.Schedule = &value
		case "duration":
			d, err := w.duration()
			if err != nil {
				return budget, err
			}
			budget.Duration = &metav1.Duration{Duration: d}
		default:
			return budget, r.unknown(w, "nodes= reasons= schedule= duration=")
		}
	}
	return budget, nil
}

// poolLabels returns the labels that every node of the pool has.
func poolLabels(p *v1.NodePool) map[string]string {
	labels := map[string]string{
		v1.NodePoolLabelKey:                          p.Name,
		p.Spec.Template.Spec.NodeClassRef.LabelKey(): p.Spec.Template.Spec.NodeClassRef.Name,
	}
	for k, v := range p.Spec.Template.Labels {
		labels[k] = v
	}
	return labels
}

// nodeTaints returns the taints that a started node of the pool has.
func nodeTaints(p *v1.NodePool) []corev1.Taint { return v1.CoreTaints(p.Spec.Template.Spec.Taints) }
