package template

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/api/resource"

	"tenon.sh/api/awsv1"
)

// devices returns the machine's volumes: those of the class, or the defaults of its family.
func devices(class *awsv1.EC2NodeClass) (out []ec2types.LaunchTemplateBlockDeviceMappingRequest) {
	mappings := class.Spec.BlockDeviceMappings
	if len(mappings) == 0 {
		mappings = defaultDevices(class.Family())
	}
	for _, m := range mappings {
		mapping := ec2types.LaunchTemplateBlockDeviceMappingRequest{DeviceName: m.DeviceName}
		if m.EBS != nil {
			mapping.Ebs = volume(m.EBS)
		}
		out = append(out, mapping)
	}
	return out
}

func volume(v *awsv1.BlockDevice) *ec2types.LaunchTemplateEbsBlockDeviceRequest {
	out := &ec2types.LaunchTemplateEbsBlockDeviceRequest{
		DeleteOnTermination: v.DeleteOnTermination, Encrypted: v.Encrypted, KmsKeyId: v.KMSKeyID, SnapshotId: v.SnapshotID,
		VolumeInitializationRate: v.VolumeInitializationRate, Iops: unlessZero(v.IOPS), Throughput: unlessZero(v.Throughput),
	}
	if v.VolumeType != nil {
		out.VolumeType = ec2types.VolumeType(*v.VolumeType)
	}
	if v.VolumeSize != nil { // EC2 takes whole GiB
		out.VolumeSize = aws.Int32(int32((v.VolumeSize.Value() + 1<<30 - 1) >> 30))
	}
	return out
}

func unlessZero(n *int64) *int32 {
	if n == nil || *n == 0 {
		return nil
	}
	return aws.Int32(int32(*n))
}

func defaultDevices(family string) []awsv1.BlockDeviceMapping {
	disk := func(name, size string) awsv1.BlockDeviceMapping {
		q := resource.MustParse(size)
		return awsv1.BlockDeviceMapping{DeviceName: aws.String(name), EBS: &awsv1.BlockDevice{
			VolumeSize: &q, VolumeType: aws.String("gp3"), Encrypted: aws.Bool(true),
		}}
	}
	switch {
	case family == awsv1.FamilyAL2 || family == awsv1.FamilyAL2023:
		return []awsv1.BlockDeviceMapping{disk("/dev/xvda", "20Gi")}
	case family == awsv1.FamilyBottlerocket:
		return []awsv1.BlockDeviceMapping{disk("/dev/xvda", "4Gi"), disk("/dev/xvdb", "20Gi")}
	case awsv1.IsWindows(family):
		return []awsv1.BlockDeviceMapping{disk("/dev/sda1", "50Gi")}
	}
	return nil
}
