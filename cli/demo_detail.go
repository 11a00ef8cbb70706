package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/catalog"
)

// detail describes the state at a stage in a few words.
func (d *demo) detail(s stage) string {
	j := d.journey
	switch s {
	case podsPending:
		return fmt.Sprintf("%d pods wait: kube-scheduler finds no node for them", len(j.pending))
	case claimed:
		return fmt.Sprintf("%s asks for a machine", strings.Join(slices.Sorted(maps.Keys(j.claims)), ", "))
	case launched:
		return counted(d.machines())
	case registered:
		return "node " + strings.Join(slices.Sorted(maps.Keys(j.nodes)), ", ")
	case initialized:
		return d.sizes()
	case podsRunning:
		return fmt.Sprintf("%d of %d", j.running(), j.replicas)
	case scaledDown:
		return "the ReplicaSet deletes its pods"
	case nodeEmpty:
		return "no pod is left"
	case disrupted:
		return d.disruption()
	case drained:
		return "nothing has to be moved any more"
	case gone:
		return "machine stopped, Node and NodeClaim removed: $0/h"
	}
	return ""
}

// machines describes the machine of each claim.
func (d *demo) machines() []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(d.journey.claims)) {
		labels := d.journey.claims[name].Labels
		offer := offering{labels[corev1.LabelInstanceTypeStable], labels[corev1.LabelTopologyZone], labels[v1.CapacityTypeLabelKey]}
		line := fmt.Sprintf("%s in %s, %s", d.paint(bold, offer.instanceType), offer.zone, offer.capacityType)
		if price, ok := d.prices.of[offer]; ok {
			line += ", " + d.paint(bold, fmt.Sprintf("$%.4f/h", price))
		}
		lines = append(lines, line)
	}
	return lines
}

func (d *demo) sizes() string {
	var sizes []string
	for _, name := range slices.Sorted(maps.Keys(d.journey.nodes)) {
		free := d.journey.nodes[name].Status.Allocatable
		sizes = append(sizes, fmt.Sprintf("%.1f cpu and %.1f GiB for pods", free.Cpu().AsApproximateFloat64(), free.Memory().AsApproximateFloat64()/(1<<30)))
	}
	return counted(sizes)
}

// counted joins words, and counts equal ones: "2 × a; b".
func counted(words []string) string {
	count := map[string]int{}
	for _, word := range words {
		count[word]++
	}
	var parts []string
	for _, word := range slices.Sorted(maps.Keys(count)) {
		if n := count[word]; n > 1 {
			word = fmt.Sprintf("%d × %s", n, word)
		}
		parts = append(parts, word)
	}
	return strings.Join(parts, "; ")
}

func (d *demo) disruption() string {
	reasons := map[string]bool{}
	for _, claim := range d.journey.claims {
		if c := v1.GetCondition(claim, v1.ConditionDisruptionReason); c != nil {
			reasons[c.Reason] = true
		}
	}
	return "reason " + strings.Join(slices.Sorted(maps.Keys(reasons)), ", ") + ": closed for new pods, looked at again"
}

// A choice is Tenon's log message about a new claim, with the reasons for its machine.
type choice struct {
	Message    string   `json:"message"`
	NodeClaim  string   `json:"NodeClaim"`
	Types      []string `json:"instance-types"`
	Price      string   `json:"price-per-hour"`
	Considered int      `json:"considered"`
	RunnerUp   string   `json:"runner-up"`
	CostsMore  string   `json:"runner-up-costs-more"`
	Filled     string   `json:"filled"`
}

// why explains each claim's machine from Tenon's log.
func (d *demo) why() []string {
	log, err := os.ReadFile(d.local.log)
	if err != nil {
		return []string{"why is not known: " + err.Error()}
	}
	var lines []string
	seen := map[string]bool{}
	for lineText := bufio.NewScanner(bytes.NewReader(log)); lineText.Scan(); {
		var c choice
		// A line in another form has another subject.
		if json.Unmarshal(lineText.Bytes(), &c) != nil || c.Message != "created nodeclaim" || d.journey.claims[c.NodeClaim] == nil {
			continue
		}
		reason := c.lines()
		if told := strings.Join(reason, ""); !seen[told] { // machines of one kind have the same reason
			seen[told] = true
			lines = append(lines, reason...)
		}
	}
	return lines
}

func (c choice) lines() []string {
	lines := []string{fmt.Sprintf("why: cheapest of %d offerings that hold the pods", c.Considered)}
	if c.Filled != "" {
		lines = append(lines, "the pods fill "+strings.Replace(c.Filled, " ", " of its ", 1))
	}
	if c.RunnerUp != "" {
		lines = append(lines, fmt.Sprintf("next best: %s, %s/h more", c.RunnerUp, c.CostsMore))
	}
	return lines
}

// offering is the key of a price.
type offering struct{ instanceType, zone, capacityType string }

// A priceList holds the prices of the simulated cloud.
type priceList struct{ of map[offering]float64 }

func newPriceList(name string) (*priceList, error) {
	types, err := catalog.ByName(name)
	if err != nil {
		return nil, err
	}
	list := &priceList{of: map[offering]float64{}}
	for _, t := range types {
		for _, o := range t.Offerings {
			list.of[offering{t.Name, o.Zone, o.CapacityType}] = o.Price
		}
	}
	return list, nil
}
