package trace

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// WriteCSV writes the trace in the form for Read. It leaves out optional columns without values.
func (t *Trace) WriteCSV(out io.Writer) error {
	resources := t.resources()
	labels, selector, tolerations := false, false, false
	for i := range t.Kinds {
		k := &t.Kinds[i]
		labels, selector, tolerations = labels || len(k.Labels) > 0, selector || len(k.Selector) > 0, tolerations || len(k.Tolerations) > 0
	}
	header := append([]string{"namespace", "pod", "owner", "arrival", "departure"}, resources...)
	for _, c := range []struct {
		used bool
		name string
	}{{labels, "labels"}, {selector, "selector"}, {tolerations, "tolerations"}} {
		if c.used {
			header = append(header, c.name)
		}
	}
	w := csv.NewWriter(out)
	if err := w.Write(header); err != nil {
		return err
	}
	for i := range t.Pods {
		p := &t.Pods[i]
		k := &t.Kinds[p.Kind]
		cells := []string{k.Namespace, p.Name, t.ownerOf(p), timeText(p.Arrival), timeText(p.Departure)}
		for _, name := range resources {
			cells = append(cells, amountText(k.Requests, name))
		}
		if labels {
			cells = append(cells, pairsText(k.Labels))
		}
		if selector {
			cells = append(cells, pairsText(k.Selector))
		}
		if tolerations {
			cells = append(cells, tolerationsText(k.Tolerations))
		}
		if err := w.Write(cells); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// WriteJSON writes the trace as lines of JSON.
func (t *Trace) WriteJSON(out io.Writer) error {
	buffered := bufio.NewWriter(out)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false)
	for i := range t.Pods {
		p := &t.Pods[i]
		k := &t.Kinds[p.Kind]
		d := document{
			Namespace: k.Namespace, Pod: p.Name, Owner: t.ownerOf(p), Arrival: cell(timeText(p.Arrival)), Departure: cell(timeText(p.Departure)),
			Requests: map[string]cell{}, Labels: k.Labels, Selector: k.Selector,
		}
		for name := range k.Requests {
			d.Requests[string(name)] = cell(amountText(k.Requests, string(name)))
		}
		for _, x := range k.Tolerations {
			d.Tolerations = append(d.Tolerations, tolerationsText([]corev1.Toleration{x}))
		}
		if err := encoder.Encode(d); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// resources returns cpu and memory, and all other resources that a pod requests.
func (t *Trace) resources() []string {
	seen := map[string]bool{}
	for i := range t.Kinds {
		for name := range t.Kinds[i].Requests {
			seen[string(name)] = true
		}
	}
	delete(seen, "cpu")
	delete(seen, "memory")
	return append([]string{"cpu", "memory"}, slices.Sorted(maps.Keys(seen))...)
}

func (t *Trace) ownerOf(p *Pod) string {
	if p.Owner < 0 {
		return ""
	}
	return t.Owners[p.Owner]
}

func amountText(list corev1.ResourceList, name string) string {
	q, asked := list[corev1.ResourceName(name)]
	if !asked {
		return ""
	}
	return q.String()
}

func timeText(m Moment) string {
	if m == never {
		return ""
	}
	return m.Time().Format(time.RFC3339Nano)
}
