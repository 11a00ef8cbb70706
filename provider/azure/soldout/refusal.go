package soldout

import (
	"errors"
	"strconv"
	"strings"
	"time"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/azure/cloud"
)

// The reasons of a NodeClaim's condition Launched if Azure had no machine for it.
const (
	ReasonQuota                     = "SubscriptionQuotaReached"
	ReasonSKU                       = "SKUNotAvailable"
	ReasonZonalAllocation           = "ZonalAllocationFailure"
	ReasonAllocation                = "AllocationFailure"
	ReasonOverconstrainedZonal      = "OverconstrainedZonalAllocationFailure"
	ReasonOverconstrainedAllocation = "OverconstrainedAllocationFailure"
)

// Refusal is the meaning of an error for the choice of machines.
type Refusal struct {
	// Reason is a reason for the condition Launched, "" if the error has another cause than capacity or quotas.
	Reason string
	// Code is Azure's code, from the nested error if that one counts.
	Code string
	// Other means that another offering may have capacity: the refused one is marked, and the launch tries the next.
	Other bool
}

// The times for which marks hold.
const (
	quotaAge    = 10 * time.Minute // cores may become free, or a smaller machine may fit
	noQuotaAge  = time.Hour        // the owner of the subscription has to request a quota
	capacityAge = time.Hour
	spotSKUAge  = time.Hour
	skuAge      = 23 * time.Hour
	// misfitAge is for sizes that do not support the request, according to Azure's error.
	misfitAge = 10 * time.Minute
	// suspectAge is for sizes that were not requested: a refused size says little about larger ones on the same hardware.
	suspectAge = 3 * time.Minute
)

// rule defines the marks for a refusal with one of these codes and a text in the message.
type rule struct {
	codes  []string
	text   string // in lower case, "" for any
	reason string
	mark   func(m *Marks, a Attempt, message string)
}

// rules are in order: the first match counts.
var rules = []rule{
	{quotaCodes, "lowprioritycores", ReasonQuota, func(m *Marks, _ Attempt, _ string) {
		m.larger(group{capacityType: v1.CapacityTypeSpot}, 0, ReasonQuota, noQuotaAge)
	}},
	{quotaCodes, "family cores quota", ReasonQuota, (*Marks).familyQuota},
	{[]string{"SkuNotAvailable"}, "", ReasonSKU, func(m *Marks, a Attempt, _ string) {
		age := skuAge
		if a.CapacityType == v1.CapacityTypeSpot {
			age = spotSKUAge
		}
		m.size(offering{a.Size.Name, a.Zone, a.CapacityType}, ReasonSKU, age)
	}},
	{[]string{"ZonalAllocationFailed"}, "", ReasonZonalAllocation, func(m *Marks, a Attempt, _ string) {
		m.capacity(a, ReasonZonalAllocation, v1.CapacityTypeOnDemand, v1.CapacityTypeSpot)
	}},
	{[]string{"AllocationFailed"}, "", ReasonAllocation, func(m *Marks, a Attempt, _ string) {
		m.capacity(a, ReasonAllocation, v1.CapacityTypeOnDemand, v1.CapacityTypeSpot)
	}},
	{[]string{"OverconstrainedZonalAllocationRequest"}, "", ReasonOverconstrainedZonal, func(m *Marks, a Attempt, _ string) {
		m.capacity(a, ReasonOverconstrainedZonal, a.CapacityType)
	}},
	{[]string{"OverconstrainedAllocationRequest"}, "", ReasonOverconstrainedAllocation, func(m *Marks, a Attempt, _ string) {
		m.capacity(a, ReasonOverconstrainedAllocation, a.CapacityType)
	}},
	{quotaCodes, "exceeding approved total regional cores quota", ReasonQuota, (*Marks).regionalQuota},
	{[]string{"VMSizeNotSupported"}, "", ReasonSKU, (*Marks).nowhere},
	{[]string{"BadRequest"}, "is not supported for subscription", ReasonSKU, (*Marks).nowhere},
	// The size does not fit this image, disk or network: another size may fit.
	{[]string{"InvalidParameter", "BadRequest"}, "vm size", ReasonSKU, func(m *Marks, a Attempt, _ string) {
		for _, capacityType := range []string{v1.CapacityTypeOnDemand, v1.CapacityTypeSpot} {
			m.size(offering{a.Size.Name, a.Zone, capacityType}, ReasonSKU, misfitAge)
		}
	}},
}

var quotaCodes = []string{"OperationNotAllowed", "QuotaExceeded"}

func (r rule) fits(d cloud.Detail) bool {
	for _, code := range r.codes {
		if strings.EqualFold(code, d.Code) && strings.Contains(strings.ToLower(d.Message), r.text) {
			return true
		}
	}
	return false
}

// Refused interprets the error of a call or of its operation, and marks the affected offerings.
func (m *Marks) Refused(err error, a Attempt) Refusal {
	e := (*cloud.Error)(nil)
	if !errors.As(err, &e) {
		return Refusal{}
	}
	if cloud.Throttled(err) { // its code is also that of a quota
		return Refusal{Code: e.Code}
	}
	return m.refused(append([]cloud.Detail{{Code: e.Code, Message: e.Message}}, e.Details...), a)
}

// RefusedCode does the same for a machine's own state, whose code is "ProvisioningState/failed/AllocationFailed".
func (m *Marks) RefusedCode(code, message string, a Attempt) Refusal {
	return m.refused([]cloud.Detail{{Code: code[strings.LastIndex(code, "/")+1:], Message: message}}, a)
}

// refused applies the first rule that matches any of these errors. The first error is the outermost.
func (m *Marks) refused(said []cloud.Detail, a Attempt) Refusal {
	for _, r := range rules {
		for _, d := range said {
			if r.fits(d) {
				m.mu.Lock()
				defer m.mu.Unlock()
				r.mark(m, a.normal(), d.Message)
				return Refusal{Reason: r.reason, Code: d.Code, Other: true}
			}
		}
	}
	return Refusal{Code: said[0].Code}
}

// capacity marks a size in its zone, and for a short while the larger ones of its family there.
func (m *Marks) capacity(a Attempt, reason string, capacityTypes ...string) {
	for _, capacityType := range capacityTypes {
		m.size(offering{a.Size.Name, a.Zone, capacityType}, reason, capacityAge)
		if family := familyOf(a.Size); family != "" && a.Size.VCPUs > 0 {
			m.larger(group{family, a.Zone, capacityType}, a.Size.VCPUs, reason, suspectAge)
		}
	}
}

// familyQuota marks the size, and the sizes of its family that need more cores than are left.
func (m *Marks) familyQuota(a Attempt, message string) {
	q := readQuota(message)
	age := quotaAge
	if q.known && q.limit == 0 {
		age = noQuotaAge
	}
	m.size(offering{a.Size.Name, anywhere, a.CapacityType}, ReasonQuota, age)
	if family, from := familyOf(a.Size), q.from(a); family != "" && from > 0 {
		m.larger(group{family, anywhere, a.CapacityType}, from, ReasonQuota, age)
	}
}

// regionalQuota marks all sizes that need more cores than are left, because otherwise launches would request them again and again.
func (m *Marks) regionalQuota(a Attempt, message string) {
	m.size(offering{a.Size.Name, anywhere, a.CapacityType}, ReasonQuota, quotaAge)
	if from := readQuota(message).from(a); from > 0 {
		m.larger(group{capacityType: a.CapacityType}, from, ReasonQuota, quotaAge)
	}
}

func (m *Marks) nowhere(a Attempt, _ string) {
	for _, capacityType := range []string{v1.CapacityTypeOnDemand, v1.CapacityTypeSpot} {
		m.size(offering{a.Size.Name, anywhere, capacityType}, ReasonSKU, skuAge)
	}
}

// quota holds the figures of a message: "Current Limit: 10, Current Usage: 8, Additional Required: 4".
type quota struct {
	known                 bool
	limit, used, required int
}

func readQuota(message string) (q quota) {
	limit, told := figure(message, "Current Limit: ")
	used, also := figure(message, "Current Usage: ")
	q = quota{known: told && also, limit: limit, used: used}
	q.required, _ = figure(message, "Additional Required: ")
	return q
}

// from returns the least number of cores that exceeds the quota. Without figures about the quota, this is the number of cores of the refused size.
// It never exceeds that number, whatever Azure's figures are. It is 0 if neither number is known.
func (q quota) from(a Attempt) int {
	from := a.Size.VCPUs
	if from == 0 {
		from = q.required
	}
	if q.known && from > 0 {
		from = max(1, min(from, q.limit-q.used+1))
	}
	return from
}

// figure returns the number after a label.
func figure(message, label string) (int, bool) {
	_, rest, found := strings.Cut(message, label)
	if !found {
		return 0, false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	n, err := strconv.Atoi(rest[:end])
	return n, err == nil
}
