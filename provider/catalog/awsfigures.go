package catalog

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"tenon.sh/provider/aws/size"
)

// awsFigures is the output of the program in folder gen.
//
//go:embed data/aws.txt
var awsFigures string

// BuiltIn returns the built-in figures of EC2's instance types, ordered by name, and their on-demand prices in us-east-1, in USD per hour.
// Not every type has a price. Callers must not change the figures or prices.
func BuiltIn() ([]size.Figures, map[string]float64) { return builtIn() }

var builtIn = sync.OnceValues(func() ([]size.Figures, map[string]float64) {
	var figures []size.Figures
	prices := map[string]float64{}
	for line := range strings.Lines(awsFigures) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		r := figureReader{words: strings.Fields(line)}
		f, price := r.read()
		if r.err != nil {
			panic(fmt.Sprintf("data/aws.txt is damaged: %v: %s", r.err, line))
		}
		figures = append(figures, f)
		if price > 0 {
			prices[f.Name] = price
		}
	}
	return figures, prices
})

// figureReader reads one line of a file of figures. A dash stands for a figure that the cloud does not give, and is read as "" or 0.
type figureReader struct {
	words []string
	err   error
}

func (r *figureReader) text(i int) string {
	if i >= len(r.words) {
		r.err = fmt.Errorf("%d words", len(r.words))
		return ""
	}
	if r.words[i] == "-" {
		return ""
	}
	return r.words[i]
}

func (r *figureReader) number(i int) int { return r.parse(r.text(i)) }

func (r *figureReader) parse(text string) int {
	n, err := strconv.Atoi(orZero(text))
	if err != nil {
		r.err = err
	}
	return n
}

func orZero(text string) string {
	if text == "" {
		return "0"
	}
	return text
}

func (r *figureReader) read() (f size.Figures, price float64) {
	price = r.decimal(1)
	f = size.Figures{
		Name: r.text(0), Architecture: r.text(2), Manufacturer: r.text(3), VCPUs: r.number(4), MemoryMiB: int64(r.number(5)),
		ClockMHz: r.number(6), Hypervisor: r.text(7), Encrypts: r.text(8) == "true", StoreGB: int64(r.number(9)),
		EBSMbps: r.number(10), NetworkMbps: int64(r.number(11)), IPv4PerENI: r.number(13), BranchENIs: r.number(14),
		OnDemand: true, Spot: true, Untold: true,
	}
	f.SetVolumes(r.number(17), r.text(18) == "dedicated")
	f.NVMeGB = f.StoreGB
	f.ENA = f.Hypervisor != "xen"
	f.Cards = cards(r.number(12), r.number(15), r.number(16))
	for _, extra := range r.words[min(len(r.words), 19):] {
		kind, values, _ := strings.Cut(extra, "=")
		r.device(&f, kind, figureReader{words: strings.Split(values, "/")})
	}
	return f, price
}

// cards returns the number of interfaces of each of n network cards: first for the default card; the other cards share the rest evenly.
func cards(first, all, n int) (out []int) {
	for i := range n {
		if i == 0 {
			out = append(out, first)
			continue
		}
		out = append(out, (all-first)/(n-1))
	}
	return out
}

func (r *figureReader) device(f *size.Figures, kind string, parts figureReader) {
	switch kind {
	case "gpu":
		f.GPUs = []size.Device{{Count: parts.number(0), Name: parts.text(1), Manufacturer: parts.text(2), MemoryMiB: int64(parts.number(3))}}
	case "accelerator":
		f.Accelerators = []size.Device{{Count: parts.number(0), Name: parts.text(1), Manufacturer: parts.text(2)}}
	case "neuron":
		// The model is in the accelerators, which the line lists first.
		device := size.Device{Count: parts.number(0), Manufacturer: "aws", Cores: parts.number(1) / max(parts.number(0), 1)}
		if len(f.Accelerators) > 0 {
			device.Name = f.Accelerators[0].Name
		}
		f.Neurons = []size.Device{device}
	case "efa":
		f.EFA = parts.number(0)
	default:
		r.err = fmt.Errorf("unknown word %q", kind)
	}
	if parts.err != nil {
		r.err = parts.err
	}
}
