package template_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/template"
)

func blueprint(change func(*template.Blueprint)) template.Blueprint {
	b := template.Blueprint{
		Class: &awsv1.EC2NodeClass{}, Tags: map[string]string{"a": "b", "c": "d"}, Image: "ami-1", UserData: "text", Tenancy: "default", IPv6Metadata: true,
	}
	b.Class.Name = "general"
	b.Class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}
	b.Class.Status.InstanceProfile = "profile"
	b.Class.Status.SecurityGroups = []awsv1.SecurityGroup{{ID: "sg-1"}, {ID: "sg-2"}}
	if change != nil {
		change(&b)
	}
	return b
}

func made(t *testing.T, change func(*template.Blueprint)) *template.Template {
	t.Helper()
	out, err := template.New(blueprint(change))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheNameFollowsFromTheContents(t *testing.T) {
	t.Parallel()
	names := map[string]string{}
	for what, change := range map[string]func(*template.Blueprint){
		"nothing":        nil,
		"image":          func(b *template.Blueprint) { b.Image = "ami-2" },
		"user data":      func(b *template.Blueprint) { b.UserData = "other" },
		"tags":           func(b *template.Blueprint) { b.Tags["a"] = "x" },
		"efa":            func(b *template.Blueprint) { b.EFA = 1 },
		"enclave":        func(b *template.Blueprint) { b.Enclave = true },
		"tenancy":        func(b *template.Blueprint) { b.Tenancy = "dedicated" },
		"group":          func(b *template.Blueprint) { b.Group = "pg-1" },
		"partition":      func(b *template.Blueprint) { b.Group, b.Partition = "pg-1", 2 },
		"reservation":    func(b *template.Blueprint) { b.Reservation = &awsv1.CapacityReservation{ID: "cr-1"} },
		"spot":           func(b *template.Blueprint) { b.Spot = true },
		"ipv6":           func(b *template.Blueprint) { b.IPv6 = true },
		"class":          func(b *template.Blueprint) { b.Class.Name = "other" },
		"profile":        func(b *template.Blueprint) { b.Class.Status.InstanceProfile = "other" },
		"monitoring":     func(b *template.Blueprint) { b.Class.Spec.DetailedMonitoring = aws.Bool(true) },
		"security group": func(b *template.Blueprint) { b.Class.Status.SecurityGroups[0].ID = "sg-3" },
	} {
		name := made(t, change).Name
		if other := names[name]; other != "" {
			t.Errorf("%s and %s give the same name %s", what, other, name)
		}
		names[name] = what
		if again := made(t, change).Name; again != name || !strings.HasPrefix(name, template.NamePrefix) {
			t.Errorf("%s: first %s, then %s", what, name, again)
		}
	}
}

func TestATemplateHoldsWhatTheClassSays(t *testing.T) {
	t.Parallel()
	size := resource.MustParse("100G")
	d := made(t, func(b *template.Blueprint) {
		b.Class.Spec.BlockDeviceMappings = []awsv1.BlockDeviceMapping{{DeviceName: aws.String("/dev/xvda"), EBS: &awsv1.BlockDevice{
			VolumeSize: &size, VolumeType: aws.String("gp3"), IOPS: aws.Int64(0), Throughput: aws.Int64(250), KMSKeyID: aws.String("key"),
		}}}
		b.Class.Spec.AssociatePublicIPAddress, b.Class.Spec.IPPrefixCount = aws.Bool(false), aws.Int32(3)
		b.Class.Spec.ConnectionTracking = &awsv1.ConnectionTracking{UDPTimeout: aws.Int32(45)}
		b.Class.Spec.CPUOptions = &awsv1.CPUOptions{NestedVirtualization: aws.String("enabled")}
		b.Class.Spec.MetadataOptions = &awsv1.MetadataOptions{HTTPTokens: aws.String("optional"), HTTPPutResponseHopLimit: aws.Int64(2)}
	}).Data
	ebs := d.BlockDeviceMappings[0].Ebs
	if *ebs.VolumeSize != 94 || ebs.Iops != nil || *ebs.Throughput != 250 || *ebs.KmsKeyId != "key" {
		t.Errorf("volume %+v", ebs)
	}
	n := d.NetworkInterfaces[0]
	if len(d.NetworkInterfaces) != 1 || *n.AssociatePublicIpAddress || *n.Ipv4PrefixCount != 3 || *n.ConnectionTrackingSpecification.UdpTimeout != 45 || len(n.Groups) != 2 {
		t.Errorf("interface %+v", n)
	}
	m := d.MetadataOptions
	if m.HttpTokens != "optional" || *m.HttpPutResponseHopLimit != 2 || m.HttpEndpoint != "enabled" || m.HttpProtocolIpv6 != "disabled" || m.InstanceMetadataTags != "disabled" {
		t.Errorf("metadata %+v", m)
	}
	text, _ := base64.StdEncoding.DecodeString(*d.UserData)
	if string(text) != "text" || *d.ImageId != "ami-1" || *d.IamInstanceProfile.Name != "profile" || d.CpuOptions.NestedVirtualization != "enabled" ||
		len(d.SecurityGroupIds) != 0 || *d.EnclaveOptions.Enabled || *d.Monitoring.Enabled {
		t.Errorf("data %+v", d)
	}
	if d.CapacityReservationSpecification.CapacityReservationPreference != ec2types.CapacityReservationPreferenceNone {
		t.Error("a machine that is meant for no reservation may use one that is open")
	}
}

func TestFamiliesHaveDisksOfTheirOwn(t *testing.T) {
	t.Parallel()
	for family, want := range map[string]string{
		awsv1.FamilyAL2: "/dev/xvda 20", awsv1.FamilyAL2023: "/dev/xvda 20", awsv1.FamilyBottlerocket: "/dev/xvda 4, /dev/xvdb 20",
		awsv1.FamilyWindows2022: "/dev/sda1 50", awsv1.FamilyCustom: "",
	} {
		var got []string
		for _, m := range made(t, func(b *template.Blueprint) { b.Class.Spec.AMIFamily = aws.String(family) }).Data.BlockDeviceMappings {
			got = append(got, *m.DeviceName+" "+resource.NewQuantity(int64(*m.Ebs.VolumeSize), resource.DecimalSI).String())
			if m.Ebs.VolumeType != "gp3" || !*m.Ebs.Encrypted || m.Ebs.DeleteOnTermination != nil {
				t.Errorf("%s: %+v", family, m.Ebs)
			}
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s has %q, want %q", family, text, want)
		}
	}
}

func TestInterfacesCarryOnlyWhatTheyCan(t *testing.T) {
	t.Parallel()
	efa := made(t, func(b *template.Blueprint) {
		b.EFA, b.IPv6 = 3, true
		b.Class.Spec.IPPrefixCount = aws.Int32(1)
	}).Data.NetworkInterfaces
	for i, n := range efa {
		if *n.InterfaceType != "efa" || *n.NetworkCardIndex != int32(i) || *n.DeviceIndex != int32(min(i, 1)) || *n.Ipv6PrefixCount != 1 || n.Ipv4PrefixCount != nil || !*n.PrimaryIpv6 {
			t.Errorf("interface %d: %+v", i, n)
		}
	}
	own := made(t, func(b *template.Blueprint) {
		b.EFA, b.Class.Spec.IPPrefixCount = 3, aws.Int32(1)
		b.Class.Spec.NetworkInterfaces = []awsv1.NetworkInterface{{InterfaceType: "interface"}, {NetworkCardIndex: 1, DeviceIndex: 1, InterfaceType: "efa-only"}}
	}).Data.NetworkInterfaces
	if len(efa) != 3 || len(own) != 2 || own[0].Ipv4PrefixCount == nil || own[1].Ipv4PrefixCount != nil || len(own[1].Groups) != 2 {
		t.Errorf("%d and %d interfaces, the class's own are %+v", len(efa), len(own), own)
	}
}

func TestReservationsAreMeantExactly(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reservation awsv1.CapacityReservation
		market      ec2types.MarketType
	}{
		"default":       {awsv1.CapacityReservation{ID: "cr-1", ReservationType: "default"}, ""},
		"block":         {awsv1.CapacityReservation{ID: "cr-1", ReservationType: "capacity-block"}, ec2types.MarketTypeCapacityBlock},
		"interruptible": {awsv1.CapacityReservation{ID: "cr-1", ReservationType: "default", Interruptible: true}, ec2types.MarketTypeInterruptibleCapacityReservation},
	} {
		d := made(t, func(b *template.Blueprint) { b.Reservation = &test.reservation }).Data
		market := ec2types.MarketType("")
		if d.InstanceMarketOptions != nil {
			market = d.InstanceMarketOptions.MarketType
		}
		s := d.CapacityReservationSpecification
		if market != test.market || s.CapacityReservationPreference != ec2types.CapacityReservationPreferenceCapacityReservationsOnly || *s.CapacityReservationTarget.CapacityReservationId != "cr-1" {
			t.Errorf("%s: market %q, %+v", name, market, s)
		}
	}
}

// A pod's request or the class enables enclaves.
func TestEnclavesAreTurnedOnByPodsOrByTheClass(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*template.Blueprint){
		"a pod": func(b *template.Blueprint) { b.Enclave = true },
		"the class": func(b *template.Blueprint) {
			b.Class.Spec.EnclaveOptions = &awsv1.EnclaveOptions{Enabled: aws.Bool(true)}
		},
	} {
		if d := made(t, change).Data; !*d.EnclaveOptions.Enabled {
			t.Errorf("asked for by %s: enclaves are off", name)
		}
	}
	off := func(b *template.Blueprint) {
		b.Class.Spec.EnclaveOptions = &awsv1.EnclaveOptions{Enabled: aws.Bool(false)}
	}
	if d := made(t, off).Data; *d.EnclaveOptions.Enabled {
		t.Error("turned off by the class: enclaves are on")
	}
}
