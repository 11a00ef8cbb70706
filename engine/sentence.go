package engine

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// This file turns decisions into sentences for people. Events, log lines and commands all use these sentences, so that the reader of one recognises the
// others.

// Sentence returns the reason as a sentence that names the reason's pool.
func (r Reason) Sentence() string {
	if r.NodePool == "" {
		return r.Message()
	}
	return "pool " + r.NodePool + ": " + r.Message()
}

// mostPoolNames is the number of pools that one part of a sentence names.
const mostPoolNames = 5

// mostTypeNames is the number of instance types that one part of a sentence names.
const mostTypeNames = 3

// Sentence returns the reasons as a sentence, in the order given. Pools that refuse for the same reason are named together.
func Sentence(reasons []Reason) string {
	var messages []string
	pools := map[string][]string{}
	for _, r := range reasons {
		message := r.Message()
		if _, ok := pools[message]; !ok {
			messages = append(messages, message)
			pools[message] = nil
		}
		if r.NodePool != "" {
			pools[message] = append(pools[message], r.NodePool)
		}
	}
	parts := make([]string, 0, len(messages))
	for _, message := range messages {
		switch names := pools[message]; len(names) {
		case 0:
			parts = append(parts, message)
		case 1:
			parts = append(parts, "pool "+names[0]+": "+message)
		default:
			parts = append(parts, "pools "+AtMost(names, mostPoolNames)+": "+message)
		}
	}
	return strings.Join(parts, "; ")
}

// Sentence returns the launch and the reason for its choice as a sentence.
func (l *Launch) Sentence() string {
	if len(l.Offerings) == 0 {
		return "a machine of pool " + l.NodePool
	}
	text := l.Offerings[0].OfferingID.Words() + " for " + l.PriceWords()
	if l.Commitment != "" {
		text += " beside commitment " + l.Commitment + ", which is paid anyway"
	}
	if l.Why.Considered > 0 {
		text += fmt.Sprintf(", chosen from %s that can hold its pods", Plural(l.Why.Considered, "offering"))
	}
	if next := l.Why.RunnerUpSentence(); next != "" {
		text += "; " + next
	}
	if l.Why.Division != nil {
		text += "; " + l.Why.Division.Sentence()
	}
	return text
}

// Sentence returns the listed zones and types, and the reason for which no more are listed: "in b rather than a or c, so that not all of ReplicaSet default/web is lost at once: +0.4 %".
func (d *Division) Sentence() string {
	var parts []string
	if len(d.OtherZones) > 0 {
		parts = append(parts, "in "+strings.Join(d.Zones, " or ")+" rather than "+strings.Join(d.OtherZones, " or "))
	}
	if len(d.OtherTypes) > 0 {
		parts = append(parts, "as "+AtMost(d.Types, mostTypeNames)+" rather than "+AtMost(d.OtherTypes, mostTypeNames))
	}
	text := strings.Join(parts, ", ") + ", so that not all of " + d.Owner + " is lost at once"
	if d.Dearer > 0 {
		return text + fmt.Sprintf(": +%.1f %%", 100*d.Dearer)
	}
	return text
}

// PriceWords returns the price of the launch in words.
func (l *Launch) PriceWords() string {
	if l.Price == 0 {
		return "a price that nobody knows"
	}
	return Dollars(l.Price) + "/h"
}

// RunnerUpSentence returns a sentence about the next best instance type, "" if there is none.
func (c Choice) RunnerUpSentence() string {
	if c.RunnerUp == (OfferingID{}) {
		return ""
	}
	next := "the next other type, " + c.RunnerUp.Words() + ", "
	switch {
	case c.PriceDifference > 0:
		return next + "costs " + Dollars(c.PriceDifference) + "/h more"
	case c.PriceDifference < 0:
		return next + "costs " + Dollars(-c.PriceDifference) + "/h less and would leave more to pay for in all"
	}
	return next + "costs the same"
}

// Words returns the offering in words.
func (id OfferingID) Words() string {
	text := id.InstanceType + " in " + id.Zone + ", " + id.CapacityType
	if id.Reservation != "" {
		text += " of " + id.Reservation
	}
	return text
}

// SavingWords returns the change of the bill by a disruption as the next part of a sentence, "" if the bill does not change.
func SavingWords(perHour float64) string {
	switch {
	case perHour > 0:
		return ", saves " + Dollars(perHour) + "/h"
	case perHour < 0:
		return ", costs " + Dollars(-perHour) + "/h more"
	}
	return ""
}

// Sentence returns the reason for which the nodes go as a sentence.
func (d *Disruption) Sentence() string {
	text := string(d.Reason) + SavingWords(d.SavingPerHour)
	if n := len(d.YieldsTo); n > 0 {
		text += fmt.Sprintf(", its room yields to pod %s", d.YieldsTo[0])
		if n > 1 {
			text += fmt.Sprintf(" and %d more", n-1)
		}
		text += " at the pool's limits"
	}
	if len(d.Pods) > 0 {
		text += ", moves " + Plural(len(d.Pods), "pod")
	}
	switch n := len(d.Replacements); n {
	case 0:
	case 1:
		text += ", once its replacement is ready"
	default:
		text += fmt.Sprintf(", once its %d replacements are ready", n)
	}
	if len(d.NodesLater) > 0 {
		text += ", and then " + strings.Join(d.NodesLater, ", ") + " can go without another machine"
	}
	return text + d.heldWords()
}

// heldWords names the time until which protected pods stay. The text is empty if no pod is protected or no deadline is set.
func (d *Disruption) heldWords() string {
	if len(d.Held) == 0 || d.HeldUntil.IsZero() {
		return ""
	}
	when := ClockText(d.HeldUntil)
	if len(d.Replacements) > 0 {
		when += " at the earliest"
	}
	if n := len(d.Held) - 1; n > 0 {
		return fmt.Sprintf(", pod %s and %d more are protected until the deadline at %s, and their places are started shortly before", d.Held[0], n, when)
	}
	return fmt.Sprintf(", pod %s is protected until the deadline at %s, and its place is started shortly before", d.Held[0], when)
}

// Sentence returns the value of a unit of the resource as a sentence: "a core is worth $0.0335/h here".
func (p ResourcePrice) Sentence() string {
	what := "one " + string(p.Resource)
	switch p.Resource {
	case corev1.ResourceCPU:
		what = "a " + p.Unit
	case corev1.ResourceMemory:
		what = "a " + p.Unit + " of memory"
	case corev1.ResourceEphemeralStorage:
		what = "a " + p.Unit + " of disk"
	case corev1.ResourcePods:
		what = "room for one more pod"
	}
	return what + " is worth " + Dollars(p.PerHour) + "/h here"
}

// HoursPerMonth is the number of hours in prices per month.
const HoursPerMonth = 730

// Dollars returns the amount with four decimals, or with six if four would show zero.
func Dollars(usd float64) string {
	if usd != 0 && usd > -0.00005 && usd < 0.00005 {
		return fmt.Sprintf("$%.6f", usd)
	}
	if usd < 0 {
		return fmt.Sprintf("-$%.4f", -usd)
	}
	return fmt.Sprintf("$%.4f", usd)
}

// AmountWords returns an amount in words: cores as decimals, memory in the largest unit that leaves a number above one.
func AmountWords(name corev1.ResourceName, q resource.Quantity) string {
	switch {
	case name == corev1.ResourceCPU:
		return strconv.FormatFloat(q.AsApproximateFloat64(), 'f', -1, 64)
	case name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage, strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
		return bytesWords(q.AsApproximateFloat64())
	}
	return q.String()
}

func bytesWords(n float64) string {
	unit := 0
	units := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}
	for n >= 1024 && unit < len(units)-1 {
		n /= 1024
		unit++
	}
	return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0") + units[unit]
}

func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// AtMost returns the first n names, and the number of the other names.
func AtMost(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

// DurationText returns the duration as 5m rather than 5m0s.
func DurationText(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

func ClockText(t time.Time) string { return t.UTC().Format(time.RFC3339) }
