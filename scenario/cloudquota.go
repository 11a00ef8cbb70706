package scenario

import (
	"cmp"
	"maps"
	"slices"

	"tenon.sh/engine"
)

const cloudQuotaWords = "left= limit= unit= scope= more= read= class="

// cloudQuota reads quota NAME left=6 limit=100 unit=vCPUs scope=REGION more="how to have more" read=2m class=NAME.
func (b *builder) cloudQuota(name word, r *reader) error {
	q, class, told := engine.Quota{Name: name.text}, defaultClass, false
	for r.more() {
		w := r.next()
		key, value := w.cut()
		switch key {
		case "left", "limit":
			n, err := w.number()
			if err != nil {
				return err
			}
			if key == "left" {
				q.Left, told = int64(n), true
			} else {
				q.Limit = int64(n)
			}
		case "unit":
			q.Unit = value
		case "scope":
			q.Scope = value
		case "more":
			q.More = value
		case "read":
			age, err := w.duration()
			if err != nil {
				return err
			}
			q.Read = b.ago(age).Time
		case "class":
			class = value
		default:
			return r.unknown(w, cloudQuotaWords)
		}
	}
	if !told {
		return name.errorf("write how much is left: left=6")
	}
	q.Limit = cmp.Or(q.Limit, q.Left)
	c := b.classNamed(class)
	if slices.ContainsFunc(c.Quotas, func(other engine.Quota) bool { return other.Name == q.Name }) {
		return name.errorf("class %s has a quota of this name already", class)
	}
	c.Quotas = append(c.Quotas, q)
	return nil
}

// quotaUses reads quota=NAME:4,NAME:4.
func (w word) quotaUses() ([]engine.QuotaUse, error) {
	counts, err := w.counts("units: write quota=NAME:4")
	var out []engine.QuotaUse
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, engine.QuotaUse{Quota: name, Units: int64(counts[name])})
	}
	return out, err
}

// useQuotas takes n machines of the offering out of the quotas that count machines immediately, or returns them if n is negative.
func useQuotas(s *engine.Snapshot, t *engine.InstanceType, id engine.OfferingID, n int64) {
	if t == nil {
		return
	}
	at := slices.IndexFunc(t.Offerings, func(o engine.Offering) bool { return idOf(t, o) == id })
	if at < 0 {
		return
	}
	for i := range s.Classes {
		for _, u := range t.Offerings[at].Quotas {
			if k := slices.IndexFunc(s.Classes[i].Quotas, func(q engine.Quota) bool { return q.Name == u.Quota && q.Read.IsZero() }); k >= 0 {
				s.Classes[i].Quotas = slices.Clone(s.Classes[i].Quotas)
				s.Classes[i].Quotas[k].Left -= n * u.Units
			}
		}
	}
}
