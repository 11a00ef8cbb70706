package packing

import (
	"math"

	"tenon.sh/engine/capacity"
)

// extract reads the prices, shrinks them until every option is worth its price at most in the arithmetic at hand, and
// adds up what the pods are worth: any such prices give a bound, rounding can only weaken it.
func (b *bound) extract(c *columns, x []float64) {
	b.u = make([][]float64, max(1, len(b.blocks)))
	for k := range b.u {
		b.u[k] = make([]float64, len(b.total))
	}
	b.device = make([][]float64, len(b.options))
	if c == nil {
		return
	}
	for k := range b.blocks {
		for j, d := range b.dims {
			b.u[k][d] = max(0, x[k*len(b.dims)+j]) / float64(b.total[d])
		}
	}
	b.add = max(0, x[c.add])
	for i := range b.options {
		b.device[i] = make([]float64, len(b.total))
		if col := b.options[i].column; col >= 0 {
			for j, d := range b.devices {
				b.device[i][d] = max(0, x[col+j])
			}
		}
	}
	over := 1.0
	for i := range b.options {
		o := &b.options[i]
		full := worth(o.size, b.u[o.block]) + worth(o.size, b.device[i]) + b.add
		if full > o.price {
			if o.price <= 0 {
				over = math.Inf(1)
				break
			}
			over = max(over, full/o.price)
		}
	}
	b.shrink(over)
	for i := range b.wants {
		b.value += float64(float64(b.wants[i].n) * b.podWorth(&b.wants[i]))
	}
	b.value += float64(float64(b.machine) * b.add)
	b.value *= 1 - 1e-12
}

func (b *bound) shrink(over float64) {
	for k := range b.u {
		for d := range b.u[k] {
			b.u[k][d] /= over
		}
	}
	for i := range b.device {
		for d := range b.device[i] {
			b.device[i][d] /= over
		}
	}
	b.add /= over
}

// podWorth is what one pod is worth wherever it may run: the least of its places. Ordinary pods are worth the least of
// each resource, which is never more.
func (b *bound) podWorth(w *want) float64 {
	if !w.devices {
		sum := 0.0
		for _, d := range b.dims {
			least := math.Inf(1)
			for _, k := range w.blocks {
				least = min(least, b.u[k][d])
			}
			if len(w.blocks) > 0 {
				sum += float64(float64(w.request[d]) * least)
			}
		}
		return sum
	}
	least := math.Inf(1)
	for i := range b.options {
		if o := &b.options[i]; b.able(w, o) {
			least = min(least, worth(w.request, b.u[o.block])+worth(w.request, b.device[i]))
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// shared is one price for each resource, for choices that do not look at blocks: the mean of the blocks, by what is asked
// of each. Devices have the mean of what pods with devices pay for them.
func (b *bound) shared() (u []float64, add float64) {
	u = make([]float64, len(b.total))
	for _, d := range b.dims {
		asked, sum := 0.0, 0.0
		for i := range b.wants {
			w := &b.wants[i]
			amount := float64(w.n) * float64(w.request[d])
			least := math.Inf(1)
			for _, k := range w.blocks {
				least = min(least, b.u[k][d])
			}
			if len(w.blocks) > 0 && amount > 0 {
				asked += amount
				sum += float64(amount * least)
			}
		}
		if asked > 0 {
			u[d] = sum / asked
		}
	}
	for _, d := range b.devices {
		asked, sum := 0.0, 0.0
		for i := range b.wants {
			w := &b.wants[i]
			if w.request[d] > 0 {
				asked += float64(w.n) * float64(w.request[d])
				sum += float64(float64(w.n) * max(0, b.podWorth(w)-worth(w.request, u)))
			}
		}
		if asked > 0 {
			u[d] = sum / asked
		}
	}
	return u, b.add
}

// low is, of each ordinary resource, the least price in any block: no option that holds an amount costs less than that is
// worth at these.
func (b *bound) low() []float64 {
	u := make([]float64, len(b.total))
	for _, d := range b.dims {
		u[d] = b.u[0][d]
		for k := range b.u {
			u[d] = min(u[d], b.u[k][d])
		}
	}
	return u
}

// values is what one pod of each shape is worth at the bound.
func (b *bound) values() map[string]float64 {
	out := map[string]float64{}
	count := map[string]float64{}
	for i := range b.wants {
		w := &b.wants[i]
		text := vectorText(w.request)
		out[text] += float64(float64(w.n) * b.podWorth(w))
		count[text] += float64(w.n)
	}
	for text := range out {
		out[text] /= count[text]
	}
	return out
}

// worth is the value of a vector at the prices u.
func worth(v capacity.Vector, u []float64) float64 {
	sum := 0.0
	for d, n := range v {
		if u[d] != 0 {
			sum += float64(float64(n) * u[d])
		}
	}
	return sum
}
