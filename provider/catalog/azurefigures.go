package catalog

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/azure/price"
	"tenon.sh/provider/azure/size"
)

// azureFigures is the output of the program in folder gen. Its first lines name the sources of the figures.
//
//go:embed data/azure.txt
var azureFigures string

// BuiltInAzure returns the built-in figures of Azure's VM sizes, ordered by name, and their prices in East US. Not every size has a price.
// Callers must not change the figures or prices.
func BuiltInAzure() ([]size.Figures, map[string]price.Price) { return builtInAzure() }

var builtInAzure = sync.OnceValues(func() ([]size.Figures, map[string]price.Price) {
	var figures []size.Figures
	prices := map[string]price.Price{}
	for line := range strings.Lines(azureFigures) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		r := figureReader{words: strings.Fields(line)}
		f, p := r.readAzure()
		if r.err != nil {
			panic(fmt.Sprintf("data/azure.txt is damaged: %v: %s", r.err, line))
		}
		figures = append(figures, f)
		if p != (price.Price{}) {
			prices[f.Name] = p
		}
	}
	slices.SortFunc(figures, func(a, b size.Figures) int { return strings.Compare(a.Name, b.Name) })
	return figures, prices
})

func (r *figureReader) readAzure() (f size.Figures, p price.Price) {
	p = price.Price{OnDemand: r.decimal(1), Spot: r.decimal(2)}
	has := func(capability string) bool { return strings.Contains(r.text(7), capability) }
	f = size.Figures{
		Name: "Standard_" + r.text(0), Architecture: v1.ArchitectureAMD64, MemoryMiB: int64(r.number(4)), DataDisks: r.number(6),
		AcceleratedNetworking: has("a"), EphemeralOSDisk: has("e"), EncryptionAtHost: has("h"), PremiumStorage: has("p"),
		Spot: p.Spot > 0, Untold: true,
	}
	if has("r") {
		f.Architecture = v1.ArchitectureARM64
	}
	paid, available, constrained := strings.Cut(r.text(3), "/")
	f.VCPUs = r.parse(paid)
	if constrained {
		f.AvailableVCPUs = r.parse(available)
	}
	for _, generation := range r.text(5) {
		f.Generations = append(f.Generations, string(generation))
	}
	for _, zone := range r.text(8) {
		f.Zones = append(f.Zones, size.Zone{Number: string(zone)})
	}
	for _, extra := range r.words[min(len(r.words), 9):] {
		name, text, _ := strings.Cut(extra, "=")
		switch n := r.parse(text); name {
		case "gpus":
			f.GPUs = n
		case "temp":
			f.ResourceDiskMiB = int64(n)
		case "cache":
			f.CachedDiskBytes = int64(n)
		case "nvme":
			f.NVMeDiskMiB = int64(n)
		default:
			r.err = fmt.Errorf("unknown word %q", extra)
		}
	}
	return f, p
}

func (r *figureReader) decimal(i int) float64 {
	n, err := strconv.ParseFloat(orZero(r.text(i)), 64)
	if err != nil {
		r.err = err
	}
	return n
}
