package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"tenon.sh/api/awsv1"
	"tenon.sh/api/azurev1beta1"
	"tenon.sh/api/clusterapiv1alpha1"
	"tenon.sh/api/kwokv1alpha1"
	"tenon.sh/engine"
	"tenon.sh/provider"
	"tenon.sh/provider/aws"
	"tenon.sh/provider/catalog"
	"tenon.sh/provider/kwok"
	"tenon.sh/provider/simulated"
)

// queueWait is the time that a look at an empty queue takes, SQS's maximum.
const queueWait = 20 * time.Second

// classKinds lists the node class kinds of the chosen cloud. They must be installed before its provider can be made.
func (c *autoscaler) classKinds() []schema.GroupVersionKind { return classKindsOf(c.opt.CloudProvider) }

func classKindsOf(cloud string) []schema.GroupVersionKind {
	switch cloud {
	case cloudAWS:
		return []schema.GroupVersionKind{awsv1.GroupVersion.WithKind("EC2NodeClass")}
	case cloudAzure:
		return []schema.GroupVersionKind{azurev1beta1.GroupVersion.WithKind("AKSNodeClass")}
	case cloudClusterAPI:
		return []schema.GroupVersionKind{clusterapiv1alpha1.GroupVersion.WithKind("ClusterAPINodeClass")}
	}
	return []schema.GroupVersionKind{kwokv1alpha1.GroupVersion.WithKind("KWOKNodeClass")}
}

// clouds returns all clouds.
func clouds() []string { return []string{cloudKWOK, cloudAWS, cloudAzure, cloudClusterAPI} }

// allClassKinds returns the node class kinds of all clouds.
func allClassKinds() (out []schema.GroupVersionKind) {
	for _, cloud := range clouds() {
		out = append(out, classKindsOf(cloud)...)
	}
	return out
}

// sells returns the catalog of the simulated cloud; a real cloud has its own. Machines of EC2's built-in catalog have drivers of devices if
// the gates of the AWS provider, or a fault, name them.
func (c *autoscaler) sells(faults []simulated.Fault) ([]engine.InstanceType, error) {
	if c.opt.CloudProvider != cloudKWOK {
		return nil, nil
	}
	if c.opt.InstanceTypesFile == "" {
		types, err := catalog.ByName(c.opt.Catalog)
		if err != nil || c.opt.Catalog != catalog.NameAWS {
			return types, err
		}
		for gate, driver := range map[string]string{"DRANVIDIAGPU": catalog.NVIDIADriver, "DRAEFA": catalog.EFADriver} {
			if c.opt.AWSFeatureGates[gate] {
				catalog.ExpectDevices(types, driver)
			}
		}
		for _, f := range faults {
			if f.What == simulated.FaultSlices {
				catalog.ExpectDevices(types, f.Driver)
			}
		}
		return types, nil
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

// newCloud makes the provider of the chosen cloud.
func (c *autoscaler) newCloud(ctx context.Context, p *parts) (provider.Provider, error) {
	switch c.opt.CloudProvider {
	case cloudAWS:
		return c.newAWS(ctx, p)
	case cloudAzure:
		return c.newAzure(p)
	case cloudClusterAPI:
		return c.newClusterAPI(p.mgr, p)
	}
	return c.newKWOK(p.mgr, p.lasting.sells, p.lasting.faults)
}

// newKWOK makes the simulated cloud. It forgets its machines between two terms as leader, as in a restart, because another leader may have
// changed them.
func (c *autoscaler) newKWOK(mgr manager.Manager, sells []engine.InstanceType, faults []simulated.Fault) (*kwok.Provider, error) {
	cloud, err := simulated.NewCloud(simulated.Config{
		Clock:    clock.RealClock{},
		Catalog:  sells,
		Faults:   faults,
		Profile:  simulated.Profile{Boot: simulated.BootModel{Fixed: c.opt.BootDelay}, Spot: simulated.SpotModel{Notice: interruptionNotice}},
		IDPrefix: kwok.IDPrefix,
	})
	if err != nil {
		return nil, err
	}
	if len(faults) > 0 {
		c.log.Info("the simulated cloud has begun, things will go wrong in it", "faults", len(faults))
	}
	made, err := kwok.New(kwok.Config{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{}, Cloud: cloud, RepairAfter: c.opt.RepairAfter,
	})
	if err != nil {
		return nil, err
	}
	return made, mgr.Add(made)
}

// interruptionNotice is the time between the notice and the end of an interrupted machine; only faults interrupt machines.
const interruptionNotice = 2 * time.Minute

// faults reads the faults of the simulated cloud.
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

// newAWS makes the AWS provider, and checks its connection.
func (c *autoscaler) newAWS(ctx context.Context, p *parts) (*aws.Provider, error) {
	version, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	authorities, err := c.authorities()
	if err != nil {
		return nil, err
	}
	cfg := c.opt.config()
	cfg.ClusterCABundle, cfg.QueueWait, cfg.UserAgent = authorities, queueWait, "karpenter.sh-"+buildVersion()
	cfg.Client, cfg.Reader, cfg.Version, cfg.Clock = p.mgr.GetClient(), p.mgr.GetAPIReader(), version, clock.RealClock{}
	cfg.Registry, cfg.Tell, cfg.May = p.state, p.tell, p.mgr.term.Check
	reserved, said := c.opt.FeatureGates["ReservedCapacity"]
	cfg.NoReserved = said && !reserved
	made, err := aws.New(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := made.Check(ctx); err != nil {
		return nil, err
	}
	return made, nil
}

// authorities returns the certificate authorities of the API server for machines, in base64. If none are configured, it returns the ones that the
// controller itself trusts.
func (c *autoscaler) authorities() (string, error) {
	if c.opt.ClusterCABundle != "" {
		return c.opt.ClusterCABundle, nil
	}
	own := rest.CopyConfig(c.config)
	if err := rest.LoadTLSFiles(own); err != nil {
		return "", fmt.Errorf("read the certificate authorities of the API server: %w", err)
	}
	return base64.StdEncoding.EncodeToString(own.CAData), nil
}
