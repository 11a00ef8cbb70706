package assortment

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tenon.sh/api/clusterapiv1alpha1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
	"tenon.sh/engine/kube"
	"tenon.sh/provider/clusterapi/contract"
)

// The estimate for a machine without a known price: about the usual price of a cloud's general-purpose machines, in USD per hour. Only two
// things matter: that larger machines cost more, and that the price is not 0. With a price of 0, no node would be replaced by a smaller one.
const (
	estimatePerCore = 0.031
	estimatePerGiB  = 0.0042
	estimatePerGPU  = 0.9
	// spotShare is the price of a spot machine as a share of the on-demand price.
	spotShare = 0.4
)

// price returns the price of a machine, and whether the price is an estimate.
func (r *reader) price(m *Machines) (price float64, estimated bool, err error) {
	if text, ok := r.Deployment.Annotations[contract.PriceAnnotation]; ok {
		price, err := strconv.ParseFloat(text, 64)
		if err != nil || !(price > 0) || math.IsInf(price, 0) {
			return 0, false, fmt.Errorf("annotation %s is %q: it must be a price in USD per hour above 0, such as 0.35", contract.PriceAnnotation, text)
		}
		return price, false, nil
	}
	listed := func(p clusterapiv1alpha1.Price) bool {
		capacityType := p.CapacityType
		if capacityType == "" {
			capacityType = v1.CapacityTypeOnDemand
		}
		return p.InstanceType == m.Type && capacityType == m.CapacityType
	}
	if i := slices.IndexFunc(r.class.Spec.Prices, listed); i >= 0 {
		if price, err := strconv.ParseFloat(r.class.Spec.Prices[i].Price, 64); err == nil && price > 0 {
			return price, false, nil
		}
	}
	if r.builtIn != nil {
		if price := lowest(r.builtIn.Offerings, m.CapacityType); price > 0 {
			return price, false, nil
		}
	}
	return estimate(m), true, nil
}

// lowest returns the lowest price of the offerings with a capacity type, 0 if there is none.
func lowest(offerings []engine.Offering, capacityType string) (price float64) {
	for _, o := range offerings {
		if o.CapacityType == capacityType && (price == 0 || o.Price < price) {
			price = o.Price
		}
	}
	return price
}

func estimate(m *Machines) float64 {
	price := estimatePerCore*m.Capacity.Cpu().AsApproximateFloat64() + estimatePerGiB*m.Capacity.Memory().AsApproximateFloat64()/(1<<30)
	for name, q := range m.Capacity {
		if strings.HasSuffix(string(name), "/gpu") {
			price += estimatePerGPU * q.AsApproximateFloat64()
		}
	}
	if m.CapacityType == v1.CapacityTypeSpot {
		price *= spotShare
	}
	return math.Round(price*1e4) / 1e4
}

// overhead returns the resources that nodes keep back. With a running node, these are its capacity minus its allocatable. Otherwise, they are the
// class's reserved resources plus the eviction thresholds; a threshold that the class does not set has the kubelet's default.
func (r *reader) overhead(capacity corev1.ResourceList) corev1.ResourceList {
	if r.Node != nil && len(r.Node.Status.Allocatable) > 0 {
		out := corev1.ResourceList{}
		for name, has := range r.Node.Status.Capacity {
			free, ok := r.Node.Status.Allocatable[name]
			if kept := has.DeepCopy(); ok {
				if kept.Sub(free); kept.Sign() > 0 {
					out[name] = kept
				}
			}
		}
		return out
	}
	said := r.class.Spec.Overhead
	if said == nil {
		said = &v1.Overhead{}
	}
	out := corev1.ResourceList{
		corev1.ResourceMemory: kube.EvictionThreshold(string(said.EvictionHard["memory.available"]), "100Mi", capacity.Memory().Value()),
	}
	if disk, ok := capacity[corev1.ResourceEphemeralStorage]; ok {
		out[corev1.ResourceEphemeralStorage] = kube.EvictionThreshold(string(said.EvictionHard["nodefs.available"]), "10%", disk.Value())
	}
	for _, reserved := range []v1.ReservedResources{said.KubeReserved, said.SystemReserved} {
		for name, q := range reserved {
			sum := out[corev1.ResourceName(name)]
			sum.Add(q)
			out[corev1.ResourceName(name)] = sum
		}
	}
	return out
}
