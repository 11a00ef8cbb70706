package disrupt_test

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/cluster/clustertest"
)

// metric is the value of a counter or gauge, or how much a histogram has seen, written as name{label="value",...} with its labels in order.
func metric(w *clustertest.World, text string) float64 {
	w.Helper()
	families, err := w.Registry.Gather()
	w.Must(err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			if f.GetName()+"{"+strings.Join(labels, ",")+"}" == text {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

func resourceOf(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}
