package cli

import (
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"tenon.sh/api/kwokv1alpha1"
	"tenon.sh/engine"
	"tenon.sh/provider/catalog"
	"tenon.sh/provider/kwok"
	"tenon.sh/provider/simulated"
)

// classKinds lists the node class kinds of the chosen cloud, which must be installed before its provider can be made.
func (c *autoscaler) classKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{kwokv1alpha1.GroupVersion.WithKind("KWOKNodeClass")}
}

// sells is what the simulated cloud sells.
func (c *autoscaler) sells() ([]engine.InstanceType, error) {
	if c.opt.InstanceTypesFile == "" {
		return catalog.ByName(c.opt.Catalog)
	}
	file, err := os.Open(c.opt.InstanceTypesFile)
	if err != nil {
		return nil, fmt.Errorf("--instance-types-file-path (INSTANCE_TYPES_FILE_PATH): %w", err)
	}
	defer file.Close()
	types, err := catalog.Read(file, c.opt.InstanceTypesFile)
	if err != nil {
		return nil, fmt.Errorf("--instance-types-file-path (INSTANCE_TYPES_FILE_PATH): %w", err)
	}
	return types, nil
}

// newCloud makes the provider of the chosen cloud. The simulated one forgets its machines between two terms as leader,
// as it does in a restart: another leader may have changed them.
func (c *autoscaler) newCloud(mgr manager.Manager, sells []engine.InstanceType, faults []simulated.Fault) (*kwok.Provider, error) {
	cloud, err := simulated.NewCloud(simulated.Config{
		Clock:   clock.RealClock{},
		Catalog: sells,
		Faults:  faults,
		Profile: simulated.Profile{
			Name: "fixed", Boot: simulated.BootModel{Fixed: c.opt.BootDelay}, Spot: simulated.SpotModel{Notice: interruptionNotice},
		},
		IDPrefix: kwok.IDPrefix,
	})
	if err != nil {
		return nil, err
	}
	if len(faults) > 0 {
		c.log.Info("the simulated cloud has begun, things will go wrong in it", "faults", len(faults))
	}
	return kwok.New(kwok.Config{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{}, Cloud: cloud, RepairAfter: c.opt.RepairAfter,
	})
}

// interruptionNotice is how long before its end a machine's interruption is announced; only faults interrupt machines.
const interruptionNotice = 2 * time.Minute

// faults are what goes wrong in the simulated cloud.
func (c *autoscaler) faults() ([]simulated.Fault, error) {
	if c.opt.FaultsFile == "" {
		return nil, nil
	}
	file, err := os.Open(c.opt.FaultsFile)
	if err != nil {
		return nil, fmt.Errorf("--faults (TENON_FAULTS): %w", err)
	}
	defer file.Close()
	faults, err := simulated.ReadFaults(file, c.opt.FaultsFile)
	if err != nil {
		return nil, fmt.Errorf("--faults (TENON_FAULTS): %w", err)
	}
	return faults, nil
}
