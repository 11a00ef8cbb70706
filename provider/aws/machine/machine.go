// Package machine describes and stops the machines in the account, many in one call. Other packages start machines and decide which to stop.
package machine

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	v1 "tenon.sh/api/v1"
	"tenon.sh/engine"
)

// Machine is a machine as EC2 describes it.
type Machine struct {
	ID           string // i-…
	Zone, ZoneID string
	Type         string
	CapacityType string
	// Reservation is the capacity reservation in which the machine was started, ReservationType and Interruptible its kind.
	Reservation, ReservationType string
	Interruptible                bool
	Image, Subnet                string
	Groups                       []string // security groups
	PlacementGroup               string   // its ID
	Partition                    int
	Tenancy                      string
	EFA                          int    // interfaces
	Profile                      string // the ARN of its instance profile
	Tags                         map[string]string
	Created                      time.Time
	// Stopping is true once the machine is shutting down or terminated.
	Stopping bool
	gone     bool
}

// ProviderID returns the provider ID of a machine in a zone.
func ProviderID(zone, id string) engine.MachineID {
	return engine.MachineID("aws:///" + zone + "/" + id)
}

// ProviderID returns the machine's provider ID.
func (m *Machine) ProviderID() engine.MachineID { return ProviderID(m.Zone, m.ID) }

var providerID = regexp.MustCompile(`^aws:///([a-z0-9-]+)/(i-[0-9a-z]+)$`)

// ParseID parses the zone and ID of a machine out of its provider ID; false if the machine is not one of EC2.
func ParseID(id engine.MachineID) (zone, name string, ok bool) {
	match := providerID.FindStringSubmatch(string(id))
	if match == nil {
		return "", "", false
	}
	return match[1], match[2], true
}

// read converts EC2's description of a machine.
func read(i *ec2types.Instance) Machine {
	m := Machine{
		ID: aws.ToString(i.InstanceId), Type: string(i.InstanceType), CapacityType: v1.CapacityTypeOnDemand,
		Image: aws.ToString(i.ImageId), Subnet: aws.ToString(i.SubnetId), Tenancy: "default",
		Tags: map[string]string{}, Created: aws.ToTime(i.LaunchTime),
	}
	if p := i.Placement; p != nil {
		m.Zone, m.ZoneID, m.PlacementGroup = aws.ToString(p.AvailabilityZone), aws.ToString(p.AvailabilityZoneId), aws.ToString(p.GroupId)
		m.Partition = int(aws.ToInt32(p.PartitionNumber))
		if p.Tenancy != "" {
			m.Tenancy = string(p.Tenancy)
		}
	}
	for _, t := range i.Tags {
		m.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	if i.IamInstanceProfile != nil {
		m.Profile = aws.ToString(i.IamInstanceProfile.Arn)
	}
	for _, g := range i.SecurityGroups {
		m.Groups = append(m.Groups, aws.ToString(g.GroupId))
	}
	for _, n := range i.NetworkInterfaces {
		if strings.HasPrefix(aws.ToString(n.InterfaceType), "efa") {
			m.EFA++
		}
	}
	m.readCapacity(i)
	if i.State != nil {
		switch i.State.Name {
		case ec2types.InstanceStateNameTerminated:
			m.Stopping, m.gone = true, true
		case ec2types.InstanceStateNameShuttingDown, ec2types.InstanceStateNameStopping, ec2types.InstanceStateNameStopped:
			m.Stopping = i.State.Name == ec2types.InstanceStateNameShuttingDown
		}
	}
	return m
}

// readCapacity finds the machine's capacity type. A machine that runs in an open reservation by chance was not started for it.
func (m *Machine) readCapacity(i *ec2types.Instance) {
	lifecycle := string(i.InstanceLifecycle)
	if aws.ToString(i.SpotInstanceRequestId) != "" || i.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot {
		m.CapacityType = v1.CapacityTypeSpot
		return
	}
	s := i.CapacityReservationSpecification
	only := s != nil && s.CapacityReservationPreference == ec2types.CapacityReservationPreferenceCapacityReservationsOnly
	if id := aws.ToString(i.CapacityReservationId); id != "" && only {
		m.CapacityType, m.Reservation, m.ReservationType = v1.CapacityTypeReserved, id, "default"
		if lifecycle == "capacity-block" {
			m.ReservationType = "capacity-block"
		}
		m.Interruptible = lifecycle == "interruptible-capacity-reservation"
	}
}

func (m *Machine) String() string { return fmt.Sprintf("%s (%s in %s)", m.ID, m.Type, m.Zone) }
