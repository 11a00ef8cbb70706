package size

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/intstr"

	"tenon.sh/provider/aws/expression"
)

// Computed returns the settings for nodes of this type, with expressions replaced by their results. Reservations whose expression fails are
// left out, and listed as problems. If maxPods fails, Computed returns an error. If c is nil, it returns the settings unchanged, and fields
// with an expression count as unset.
func (f *Figures) Computed(s *Settings, c *expression.Calculator) (computed *Settings, problems []error, err error) {
	if c == nil {
		return s, nil, nil
	}
	out := *s
	v := expression.Variables{InstanceType: f.Name, VCPUs: f.VCPUs, MemoryMiB: f.MemoryMiB, IPsPerENI: f.IPv4PerENI}
	if f.DefaultCard < len(f.Cards) {
		v.DefaultENIs = f.Cards[f.DefaultCard]
	}
	if text := s.Kubelet.MaxPods; text != nil && text.Type == intstr.String {
		out.Kubelet.MaxPods = nil
		v.MaxPods = f.Pods(&out)
		n, err := c.Number(text.StrVal, v)
		if err == nil && (n < 0 || n > math.MaxInt32) {
			err = fmt.Errorf("expression %q for instance type %s gives %d pods", text.StrVal, f.Name, n)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("spec.kubelet.maxPods: %w", err)
		}
		out.Kubelet.MaxPods = &intstr.IntOrString{Type: intstr.Int, IntVal: int32(n)}
	}
	v.MaxPods = f.Pods(&out)
	kube, failed := c.Reserved(s.Kubelet.KubeReserved, v)
	for _, err := range failed {
		problems = append(problems, fmt.Errorf("spec.kubelet.kubeReserved: %w", err))
	}
	system, failed := c.Reserved(s.Kubelet.SystemReserved, v)
	for _, err := range failed {
		problems = append(problems, fmt.Errorf("spec.kubelet.systemReserved: %w", err))
	}
	out.Kubelet.KubeReserved, out.Kubelet.SystemReserved = kube, system
	return &out, problems, nil
}
