package scenario

import (
	"strconv"
	"time"

	"tenon.sh/api/v1alpha1"
	"tenon.sh/engine"
)

const commitmentWords = "machines= price= amount= discount= elsewhere= end=, and requirements: type in (a,b)"

// commitment reads commitment NAME with its words.
func (b *builder) commitment(name word, r *reader) error {
	c := engine.Commitment{Name: name.text}
	for r.more() {
		if err := b.commitmentWord(&c, r); err != nil {
			return err
		}
	}
	list := append(b.snapshot.Commitments, c)
	if err := engine.CheckCommitments(list); err != nil {
		return name.errorf("%v", err)
	}
	b.snapshot.Commitments = list
	return nil
}

func (b *builder) commitmentWord(c *engine.Commitment, r *reader) (err error) {
	if r.atRequirement() {
		req, err := r.requirement()
		c.Requirements = append(c.Requirements, v1alpha1.Requirement{Key: req.Key, Operator: req.Operator, Values: req.Values})
		return err
	}
	w := r.next()
	key, value := w.cut()
	switch key {
	case "machines":
		c.Machines, err = w.number()
	case "price", "amount", "discount", "elsewhere":
		to := map[string]*float64{"price": &c.PricePerHour, "amount": &c.AmountPerHour, "discount": &c.Discount, "elsewhere": &c.UsedElsewhere}[key]
		if *to, err = strconv.ParseFloat(value, 64); err != nil {
			return w.errorf("this is no number")
		}
	case "end":
		if c.End, err = time.Parse(time.RFC3339, value); err != nil {
			return w.errorf("this is no time of the form 2026-01-31T12:00:00Z")
		}
	default:
		return r.unknown(w, commitmentWords)
	}
	return err
}
