package bound

import (
	"math"

	"tenon.sh/engine/capacity"
)

// extract reads the prices, reduces them until no supply is worth more than its price in floating-point arithmetic, and adds up the worth
// of the pods. Any such prices give a bound, so rounding can only lower it.
func (b *Bound) extract(c *columns, x []float64) {
	b.u = make([][]float64, max(1, len(b.blocks)))
	for k := range b.u {
		b.u[k] = make([]float64, len(b.total))
	}
	b.device = make([][]float64, len(b.supplies))
	if c == nil {
		return
	}
	for k := range b.blocks {
		for j, d := range b.dims {
			b.u[k][d] = max(0, x[k*len(b.dims)+j]) / float64(b.total[d])
		}
	}
	b.add = max(0, x[c.add])
	for i := range b.supplies {
		b.device[i] = make([]float64, len(b.total))
		if col := b.supplies[i].column; col >= 0 {
			for j, d := range b.devices {
				b.device[i][d] = max(0, x[col+j])
			}
		}
	}
	over := 1.0
	for i := range b.supplies {
		o := &b.supplies[i]
		full := WorthOf(o.size, b.u[o.block]) + WorthOf(o.size, b.device[i]) + b.add
		if full > o.Price {
			if o.Price <= 0 {
				over = math.Inf(1)
				break
			}
			over = max(over, full/o.Price)
		}
	}
	b.shrink(over)
	for i := range b.demands {
		b.Value += float64(float64(b.demands[i].Count) * b.podWorth(&b.demands[i]))
	}
	b.Value += float64(float64(b.machines) * b.add)
	b.Value *= 1 - 1e-12
}

func (b *Bound) shrink(over float64) {
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

// podWorth returns the worth of one pod: for a pod with devices, its least worth on any supply that holds it; for another pod, its worth at
// the least price of each resource in its blocks, which is never more than its least worth in a block.
func (b *Bound) podWorth(w *demand) float64 {
	if !w.devices {
		sum := 0.0
		for _, d := range b.dims {
			least := math.Inf(1)
			for _, k := range w.blocks {
				least = min(least, b.u[k][d])
			}
			if len(w.blocks) > 0 {
				sum += float64(float64(w.Request[d]) * least)
			}
		}
		return sum
	}
	least := math.Inf(1)
	for i := range b.supplies {
		if o := &b.supplies[i]; able(w, o) {
			least = min(least, WorthOf(w.Request, b.u[o.block])+WorthOf(w.Request, b.device[i]))
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// Shared returns one price for each resource, for decisions that ignore blocks: the mean of the prices in the blocks, weighted by the
// requests. A device has the mean price that pods with devices pay for it.
func (b *Bound) Shared() (u []float64, add float64) {
	u = make([]float64, len(b.total))
	for _, d := range b.dims {
		asked, sum := 0.0, 0.0
		for i := range b.demands {
			w := &b.demands[i]
			amount := float64(float64(w.Count) * float64(w.Request[d]))
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
		for i := range b.demands {
			w := &b.demands[i]
			if w.Request[d] > 0 {
				asked += float64(float64(w.Count) * float64(w.Request[d]))
				sum += float64(float64(w.Count) * max(0, b.podWorth(w)-WorthOf(w.Request, u)))
			}
		}
		if asked > 0 {
			u[d] = sum / asked
		}
	}
	return u, b.add
}

// Low returns, for each ordinary resource, the least price in any block. No supply that holds an amount costs less than the amount is worth
// at these prices.
func (b *Bound) Low() []float64 {
	u := make([]float64, len(b.total))
	for _, d := range b.dims {
		u[d] = b.u[0][d]
		for k := range b.u {
			u[d] = min(u[d], b.u[k][d])
		}
	}
	return u
}

// Values returns the worth of one pod at the bound, by its request as text (capacity.Vector.Text).
func (b *Bound) Values() map[string]float64 {
	out := map[string]float64{}
	count := map[string]float64{}
	for i := range b.demands {
		w := &b.demands[i]
		text := w.Request.Text()
		out[text] += float64(float64(w.Count) * b.podWorth(w))
		count[text] += float64(w.Count)
	}
	for text := range out {
		out[text] /= count[text]
	}
	return out
}

// WorthOf returns the worth of a vector at the prices u.
func WorthOf(v capacity.Vector, u []float64) float64 {
	sum := 0.0
	for d, n := range v {
		if u[d] != 0 {
			sum += float64(float64(n) * u[d])
		}
	}
	return sum
}
