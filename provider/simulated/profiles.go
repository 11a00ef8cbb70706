package simulated

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProfileNames lists the built-in profiles, from the one with the fewest faults to the one with the most.
func ProfileNames() []string {
	return []string{"instant", "fixed30", "aws-typical", "azure-typical", "gpu-scarce", "aws-tight", "bad-day"}
}

// ProfileByName returns a built-in profile. Shares and times without public figures are assumptions.
func ProfileByName(name string) (Profile, error) {
	switch name {
	case "instant": // nothing takes time, nothing fails
		return Profile{}, nil
	case "fixed30":
		return Profile{Boot: BootModel{Fixed: 30 * time.Second}}, nil
	case "aws-typical":
		return awsTypical(), nil
	case "azure-typical":
		return azureTypical(), nil
	case "gpu-scarce":
		return gpuScarce(), nil
	case "aws-tight":
		return awsTight(), nil
	case "bad-day":
		return badDay(), nil
	}
	return Profile{}, fmt.Errorf("there is no cloud profile %q: it is one of %s", name, strings.Join(ProfileNames(), ", "))
}

func awsTypical() Profile {
	return Profile{
		Boot: awsBoot(),
		Shortage: ShortageModel{
			Common:     Shortage{0.003, 20 * time.Minute},
			Newest:     Shortage{0.03, time.Hour},
			GPU:        Shortage{0.25, 6 * time.Hour},
			SpotCommon: Shortage{0.05, 90 * time.Minute},
			SpotGPU:    Shortage{0.50, 6 * time.Hour},
		},
		Spot: SpotModel{Hazard: 1.1e-4, SoldOutFor: 90 * time.Minute, Notice: 2 * time.Minute, PricesMove: true},
		Throttle: ThrottleModel{
			Describe: Bucket{100, 20}, Launch: Bucket{50, 5}, LaunchMachines: Bucket{1000, 2},
			Terminate: Bucket{100, 5}, TerminateMachines: Bucket{1000, 20},
		},
		Lag:              LagModel{Describe: Stage{400 * time.Millisecond, 1}, List: 300 * time.Millisecond},
		Quota:            Quota{OnDemandCPU: 10_000, SpotCPU: 10_000, GPU: 128},
		Termination:      Stage{25 * time.Second, .5},
		LeastBilled:      time.Minute,
		NeverRegisters:   0.002,
		NeverReady:       0.001,
		SilentDeaths:     2e-6,
		AllocatableError: 0.005,
		MissingInZone:    0.06,
	}
}

// awsTight is a cloud with little capacity: slower, with more shortages and stricter limits on calls.
func awsTight() Profile {
	p := awsTypical()
	p.Boot.Factor = 1.3
	for _, s := range []*Shortage{&p.Shortage.Common, &p.Shortage.Newest, &p.Shortage.GPU, &p.Shortage.SpotCommon, &p.Shortage.SpotGPU} {
		s.Share = min(5*s.Share, 0.8)
	}
	p.Spot.Hazard = 5 * 5e-4
	for _, b := range []*Bucket{&p.Throttle.Describe, &p.Throttle.Launch, &p.Throttle.LaunchMachines, &p.Throttle.Terminate, &p.Throttle.TerminateMachines} {
		b.Size, b.PerSecond = b.Size/2, b.PerSecond/2
	}
	p.Lag.Describe.Median *= 5
	p.Lag.List *= 5
	return p
}

// gpuScarce is a cloud with frequent shortages of GPU machines. All its machines boot as slowly as GPU machines.
func gpuScarce() Profile {
	p := awsTypical()
	p.Shortage = ShortageModel{GPU: p.Shortage.GPU, SpotGPU: p.Shortage.SpotGPU}
	p.Boot.Linux, p.Boot.Spot = p.Boot.GPU, p.Boot.GPU
	return p
}

// azureTypical starts some machines that it gives up later, refills its buckets slowly and lists with a lag of 10 s.
func azureTypical() Profile {
	p := awsTypical()
	p.Boot = azureBoot()
	p.FailsLater, p.LeastBilled = 0.02, 0
	p.Spot.Notice = 30 * time.Second
	put, remove := Bucket{1500, 500. / 60}, Bucket{1500, 500. / 60}
	p.Throttle = ThrottleModel{Describe: Bucket{24_000, 8000. / 60}, Launch: put, Terminate: remove}
	p.Lag = LagModel{List: 10 * time.Second}
	return p
}

// badDay is a cloud with three faults: one zone is out for two hours from minute 30 on, most spot machines are taken at minute 60, and calls
// are throttled hard for ten minutes at minute 90.
func badDay() Profile {
	p := awsTypical()
	p.Boot.Factor = 2
	p.Lag.List = 60 * time.Second
	at := func(minutes int) metav1.Duration {
		return metav1.Duration{Duration: time.Duration(minutes) * time.Minute}
	}
	p.Faults = []Fault{
		{At: at(30), What: FaultOutage, For: at(120)},
		{At: at(60), What: FaultReclaim, Share: 0.6, Selector: Selector{CapacityType: "spot"}},
		{At: at(90), What: FaultThrottle, Factor: 0.1, For: at(10)},
	}
	return p
}
