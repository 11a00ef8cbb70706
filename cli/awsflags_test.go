package cli

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"tenon.sh/provider/aws"
)

// everyAWSVariable returns a value other than the default for each variable of the AWS provider.
func everyAWSVariable() map[string]string {
	return map[string]string{
		"TENON_CLOUD_PROVIDER": "aws", "CLUSTER_NAME": "demo", "CLUSTER_ENDPOINT": "https://api.example.com", "CLUSTER_CA_BUNDLE": "Y2E=", "ISOLATED_VPC": "true",
		"EKS_CONTROL_PLANE": "true", "VM_MEMORY_OVERHEAD_PERCENT": "0.02", "INTERRUPTION_QUEUE": "queue", "RESERVED_ENIS": "2",
		"DISABLE_DRY_RUN": "true", "ENABLE_ZONAL_SHIFT": "true", "AMI_REFRESH_INTERVAL": "3m", "SUBNET_REFRESH_INTERVAL": "4m",
		"AWS_FEATURE_GATES": "NodeClassCEL=true,DRANVIDIAGPU=true,DRAEFA=true,Unheard=true", "TENON_INSTANCE_STATUS_DRY_RUN": "true",
	}
}

func TestWhatTheAWSProviderIsTold(t *testing.T) {
	overhead, none := 0.02, 0.0
	for name, test := range map[string]struct {
		args []string
		env  map[string]string
		want aws.Config
	}{
		"every variable": {nil, everyAWSVariable(), aws.Config{
			ClusterName: "demo", ClusterEndpoint: "https://api.example.com", ClusterCABundle: "Y2E=", IsolatedVPC: true, EKSControlPlane: true,
			MemoryOverhead: &overhead, InterruptionQueue: "queue", ReservedENIs: 2, DisableDryRun: true, EnableZonalShift: true, NodeClassCEL: true, DRANVIDIAGPU: true, DRAEFA: true,
			StatusDryRun: true, AMIRefresh: 3 * time.Minute, SubnetRefresh: 4 * time.Minute,
		}},
		"flags win": {
			[]string{"--vm-memory-overhead-percent=0", "--reserved-enis=1", "--aws-feature-gates=NodeClassCEL=false"},
			map[string]string{"TENON_CLOUD_PROVIDER": "aws", "CLUSTER_NAME": "demo", "VM_MEMORY_OVERHEAD_PERCENT": "0.02", "RESERVED_ENIS": "2", "AWS_FEATURE_GATES": "NodeClassCEL=true"},
			aws.Config{ClusterName: "demo", MemoryOverhead: &none, ReservedENIs: 1, AMIRefresh: time.Minute, SubnetRefresh: time.Minute},
		},
	} {
		opt, err := read(test.args, test.env)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := opt.config(); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
	opt, err := read([]string{"--cloud-provider=aws", "--cluster-name=demo"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := opt.config(); *got.MemoryOverhead != 0.075 || got.ReservedENIs != 0 || got.NodeClassCEL {
		t.Errorf("by default: %+v", got)
	}
}

// Each setting of the AWS provider has an effect on its configuration.
func TestEveryAWSFlagReachesTheProvider(t *testing.T) {
	plain, err := read([]string{"--cloud-provider=aws", "--cluster-name=plain"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := everyAWSVariable()
	for _, flag := range awsFlagNames() {
		variable := strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
		if all[variable] == "" {
			t.Errorf("%s is in no test", variable)
			continue
		}
		env := map[string]string{"TENON_CLOUD_PROVIDER": "aws", "CLUSTER_NAME": "plain"}
		env[variable] = all[variable]
		opt, err := read(nil, env)
		if err != nil {
			t.Errorf("%s: %v", variable, err)
			continue
		}
		if reflect.DeepEqual(opt.config(), plain.config()) {
			t.Errorf("%s=%s changes nothing for the provider", variable, all[variable])
		}
	}
}

func TestAWSFlagsThatCannotBeAreNamed(t *testing.T) {
	for variable, value := range map[string]string{
		"CLUSTER_NAME": "", "VM_MEMORY_OVERHEAD_PERCENT": "-0.1", "RESERVED_ENIS": "-1", "AMI_REFRESH_INTERVAL": "59s", "SUBNET_REFRESH_INTERVAL": "59s",
		"AWS_FEATURE_GATES": "NodeClassCEL=maybe",
	} {
		env := map[string]string{"TENON_CLOUD_PROVIDER": "aws", "CLUSTER_NAME": "demo"}
		env[variable] = value
		if _, err := read(nil, env); err == nil || !strings.Contains(err.Error(), variable) {
			t.Errorf("%s=%s: %v, want an error that names it", variable, value, err)
		}
	}
}
