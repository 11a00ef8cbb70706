package engine_test

import (
	"fmt"
	"testing"

	"tenon.sh/engine"
	"tenon.sh/engine/provisioning"
	"tenon.sh/scenario"
)

// BenchmarkGangs plans gangs on the whole catalog of EC2: one of 512 pods with 8 GPUs each, and 50 of 20 pods of which the pool's limit
// has room for some.
func BenchmarkGangs(b *testing.B) {
	many := "pool general limits=cpu:600\ncatalog aws\n"
	for i := range 50 {
		many += fmt.Sprintf("gang g%d min=20 age=%ds\npods g%d x20 cpu=1500m mem=3Gi gang=g%d\n", i, i, i, i)
	}
	for name, text := range map[string]string{
		"512x8gpu": "pool general\ncatalog aws\ngang train min=512\npods train x512 cpu=32 mem=256Gi nvidia.com/gpu=8 gang=train\n",
		"scarce":   many,
	} {
		b.Run(name, func(b *testing.B) {
			f, err := scenario.Parse(text)
			if err != nil {
				b.Fatal(err)
			}
			launches := 0
			for b.Loop() {
				launches = len(provisioning.Plan(f.Snapshot, engine.Options{}, nil).Launches)
			}
			b.ReportMetric(float64(launches), "launches")
		})
	}
}
